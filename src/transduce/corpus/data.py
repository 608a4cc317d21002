"""The `data` section of a recipe."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from transduce.corpus.entries import CorpusSpec, spoken
from transduce.settings import Spec

__all__ = ["DataSpec"]


def _as_tuple(value: Any) -> Any:
    """One corpus is a list of one; and strict validation takes a tuple only, where a step of Python comes before it."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


class DataSpec(Spec):
    """Corpora, and limits on the lengths of training pairs."""

    # The languages first: corpora that hold several are told which are meant.
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
    def _spoken(cls, value: Any, known: ValidationInfo) -> Any:
        """Corpora with the languages of this section where they say none of their own."""
        languages = known.data.get("source_language"), known.data.get("target_language")
        match value:
            case tuple():
                return tuple(spoken(corpus, *languages) for corpus in value)
            case dict():
                if "validation" in value:
                    raise ValueError("`validation` is what `data.validation` is called: name the test set otherwise")
                return {name: spoken(corpus, *languages) for name, corpus in value.items()}
            case None:
                return None
        return spoken(value, *languages)
