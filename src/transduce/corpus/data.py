"""The `data` section of a recipe."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from transduce.corpus.readers import CorpusSpec
from transduce.settings import Spec

__all__ = ["DataSpec"]


def _as_tuple(value: Any) -> Any:
    """One corpus is a list of one; and strict validation takes a tuple only, where a step of Python comes before it."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


class DataSpec(Spec):
    """What is trained on, validated and tested on, and which pairs are left out."""

    train: Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    validation: CorpusSpec | None = None
    test: dict[str, CorpusSpec] = Field(default_factory=dict, description="test sets by name")
    source_language: str | None = None
    target_language: str | None = None
    longest: int = Field(default=256, ge=1, description="subwords a side; longer pairs are dropped and counted")
    ratio: float | None = Field(default=3.0, ge=1.0, description="longest proportion of the sides, in subwords")
