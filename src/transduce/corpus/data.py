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
    """What is trained on, validated and tested on, and which pairs are left out."""

    # The languages first: corpora that hold several are told which are meant.
    source_language: str | None = None
    target_language: str | None = None
    train: Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    validation: CorpusSpec | None = None
    test: dict[str, CorpusSpec] = Field(default_factory=dict)
    longest: int = Field(default=256, ge=1)
    ratio: float | None = Field(default=3.0, ge=1.0)

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
