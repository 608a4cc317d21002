"""The `data` section of a recipe."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from transduce.corpus.entries import CorpusSpec, EmbeddedTrees, Trees, with_languages, with_linearisation
from transduce.settings import Spec
from transduce.text.linearisation import InOrder, LinearisationSpec, TopDown

__all__ = ["DataSpec"]


def _as_tuple(value: Any) -> Any:
    """Converts one corpus or a list of corpora to the tuple that strict validation expects."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


class DataSpec(Spec):
    """Corpora, and limits on the lengths of training pairs."""

    # Languages and linearisation stand before the corpora, because pydantic validates in this order, and `_complete`
    # needs them.
    source_language: str | None = Field(
        default=None, description="Code of the source language, such as `en`; kept with the model."
    )
    target_language: str | None = Field(
        default=None, description="Code of the target language; some metrics tokenise by it."
    )
    linearisation: LinearisationSpec | None = Field(
        default=None, description="How corpora of trees become symbols; null: `{kind: top_down}`."
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
        description="Training pairs whose lengths differ by a larger factor are dropped and counted; null keeps all. "
        "Not for trees.",
    )

    @field_validator("train", "validation", "test")
    @classmethod
    def _complete(cls, value: Any, info: ValidationInfo) -> Any:
        """Adds languages and linearisation of this section to corpora that need them and name none."""

        def complete(corpus: CorpusSpec) -> CorpusSpec:
            languages = info.data.get("source_language"), info.data.get("target_language")
            return with_linearisation(with_languages(corpus, *languages), info.data.get("linearisation"))

        match value:
            case tuple():
                return tuple(map(complete, value))
            case dict():
                if "validation" in value:
                    raise ValueError("`validation` is the name of `data.validation`: give the test set another name")
                return {name: complete(corpus) for name, corpus in value.items()}
            case None:
                return None
        return complete(value)

    @model_validator(mode="after")
    def _check_linearisations(self) -> Self:
        """Raises ValueError for trees beside translations, and for trees of several linearisations."""
        corpora = [*self.train, *([self.validation] if self.validation else []), *self.test.values()]
        linearisations = [
            corpus.linearisation if isinstance(corpus, Trees | EmbeddedTrees) else None for corpus in corpora
        ]
        if any(one != linearisations[0] for one in linearisations):
            raise ValueError(
                "all corpora are translations, or all are trees with the same linearisation: a model learns one of both"
            )
        if self.linearisation is not None and linearisations[0] is None:
            raise ValueError("`linearisation` is for corpora of trees: leave it out")
        return self

    @property
    def tree_linearisation(self) -> TopDown | InOrder | None:
        """The linearisation of the corpora where they are trees; None where they are translations."""
        first = self.train[0]
        return first.linearisation if isinstance(first, Trees | EmbeddedTrees) else None
