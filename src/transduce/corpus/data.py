"""The `data` section of a recipe."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from transduce.corpus.entries import CorpusSpec, with_languages
from transduce.settings import Spec

__all__ = ["DataSpec"]


def _as_tuple(value: Any) -> Any:
    """Converts one corpus or a list of corpora to the tuple that strict validation expects."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


class DataSpec(Spec):
    """Corpora, and limits on the lengths of training pairs."""

    # The languages stand before the corpora: pydantic validates in this order, and `_add_languages` needs them.
    source_language: str | None = Field(
        default=None, description="Code of the source language, such as `en`; kept with the model."
    )
    target_language: str | None = Field(
        default=None, description="Code of the target language; some metrics tokenise by it."
    )
    train: Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        description="Training corpora."
    )
    validation: CorpusSpec | None = Field(default=None, description="Corpus translated and scored at each validation.")
    test: dict[str, CorpusSpec] = Field(
        default_factory=dict, description="Test sets by name, for `transduce evaluate RUN --test NAME`."
    )
    longest: int = Field(default=256, ge=1, description="Longer training pairs are dropped and counted; tokens a side.")
    ratio: float | None = Field(
        default=3.0,
        ge=1.0,
        description="Training pairs whose lengths differ by a larger factor are dropped and counted; null keeps all.",
    )

    @field_validator("train", "validation", "test")
    @classmethod
    def _add_languages(cls, value: Any, info: ValidationInfo) -> Any:
        """Adds the languages of this section to corpora that need languages and name none."""
        languages = info.data.get("source_language"), info.data.get("target_language")
        match value:
            case tuple():
                return tuple(with_languages(corpus, *languages) for corpus in value)
            case dict():
                if "validation" in value:
                    raise ValueError("`validation` is the name of `data.validation`: give the test set another name")
                return {name: with_languages(corpus, *languages) for name, corpus in value.items()}
            case None:
                return None
        return with_languages(value, *languages)
