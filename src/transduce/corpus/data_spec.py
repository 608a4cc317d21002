"""The `data` section of a recipe."""

import re
from collections.abc import Collection
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from transduce.corpus.corpus_kinds import (
    CorpusSpec,
    EmbeddedTrees,
    ParallelCorpus,
    Trees,
    resolve_corpus,
)
from transduce.corpus.noise import Noise
from transduce.corpus.pair_checks import name_of
from transduce.inspection.line_checks import Check
from transduce.settings import Spec
from transduce.text.directions import Direction
from transduce.text.language_codes import LanguageCode
from transduce.text.source_tags import NAME, corpus_tag, language_tag
from transduce.text.tree_linearisation import InOrder, LinearisationSpec, TopDown


def _as_tuple(value: Any) -> Any:
    """Converts one corpus or a list of corpora to the tuple that strict validation expects."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


OneOrSeveral = Annotated[
    Annotated[CorpusSpec, Tag("one")]
    | Annotated[Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_tuple), Field(min_length=1)], Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, list | tuple) else "one"),
]
"""A corpus, or a list of corpora."""


class DataSpec(Spec):
    """Corpora, and limits on the lengths of training pairs."""

    # Languages and linearisation come before the corpora, because pydantic validates in this order and `_complete`
    # needs them.
    source_language: LanguageCode | None = Field(
        default=None, description="Code of the source language, such as `en`; kept with the model."
    )
    target_language: LanguageCode | None = Field(
        default=None, description="Code of the target language; some metrics tokenise by it."
    )
    linearisation: LinearisationSpec | None = Field(
        default=None, description="How corpora of trees become symbols; null: `{kind: top_down}`."
    )
    train: Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        description="Training corpora."
    )
    validation: OneOrSeveral | None = Field(
        default=None,
        description="Corpora translated and scored at each validation, such as one a direction; the mean of their "
        "scores selects the model.",
    )
    test: dict[str, CorpusSpec] = Field(
        default_factory=dict,
        description="Test sets by name, for `transduce evaluate RUN --test NAME`; with `direction: both`, NAME-en-de "
        "and NAME-de-en.",
    )
    temperature: float | None = Field(
        default=None,
        ge=1.0,
        le=1000.0,
        description="T of the mixture of directions: with n uses an epoch by the weights, a direction gets a share "
        "proportional to n^(1/T) (Arivazhagan et al. 2019). null and 1: by the weights alone.",
    )
    max_length: int = Field(
        default=256, ge=1, description="Longer training pairs are dropped and counted; tokens a side."
    )
    ratio: float | None = Field(
        default=3.0,
        ge=1.0,
        description="Training pairs whose lengths differ by a larger factor are dropped and counted; null keeps all. "
        "Not for trees.",
    )
    noise: Noise | None = Field(
        default=None,
        description="Changes a share of the training pairs in every epoch, so that the model learns text as people "
        "write it: `{}` for the defaults of its keys; null for none. Not for trees.",
    )
    checks: dict[str, Literal["keep", "drop", "refuse"]] = Field(
        default_factory=dict,
        description="What happens to training pairs with a fault, by the names of the checks of `transduce inspect`, "
        "such as `{duplicate: drop, numbers: refuse}`. Pairs of a check that is not named are kept; but `copied` "
        "is refused for a corpus of 100 pairs and more where more than 90 % are copies, and `overlap` where training "
        "has the sources of more than 90 % of a validation or test set of 100 lines and more. Not for trees.",
    )

    @field_validator("train", "validation", "test")
    @classmethod
    def _complete(cls, value: Any, info: ValidationInfo) -> Any:
        """Adds this section's languages and linearisation to corpora that need them and name none.

        A corpus with `direction: both` becomes two.
        """
        languages = Direction(info.data.get("source_language"), info.data.get("target_language"))

        def complete(corpus: CorpusSpec) -> list[CorpusSpec]:
            parts = resolve_corpus(corpus, languages, info.data.get("linearisation"))
            if len(parts) > 1:
                for part in parts:
                    _check_named(_direction_of(part, languages))
            return parts

        match value:
            case tuple():
                return tuple(part for corpus in value for part in complete(corpus))
            case dict():
                if "validation" in value:
                    raise ValueError("`validation` is the name of `data.validation`: give the test set another name")
                named: dict[str, CorpusSpec] = {}
                for name, corpus in value.items():
                    for part in (parts := complete(corpus)):
                        # The two corpora of `direction: both` get the languages appended to their names.
                        key = name if len(parts) == 1 else f"{name}-{_direction_of(part, languages)}"
                        if key in named:
                            raise ValueError(f"two test sets have the name `{key}`: give one another name")
                        named[key] = part
                return named
            case None:
                return None
        parts = complete(value)
        return parts[0] if len(parts) == 1 else tuple(parts)

    @field_validator("checks")
    @classmethod
    def _check_names(cls, value: dict[str, str]) -> dict[str, str]:
        if unknown := [name for name in value if name not in set(Check)]:
            raise ValueError(f"`{unknown[0]}` is not a check; there are {', '.join(Check)}")
        return value

    @model_validator(mode="after")
    def _check_linearisations(self) -> Self:
        """Raises ValueError if trees and translations are mixed, or trees with different linearisations."""
        corpora = [*self.train, *self.validations, *self.test.values()]
        linearisations = [
            corpus.linearisation if isinstance(corpus, Trees | EmbeddedTrees) else None for corpus in corpora
        ]
        if any(one != linearisations[0] for one in linearisations):
            raise ValueError(
                "all corpora are translations, or all are trees with the same linearisation: a model learns one of both"
            )
        if self.linearisation is not None and linearisations[0] is None:
            raise ValueError("`linearisation` is for corpora of trees: leave it out")
        if self.noise is not None and linearisations[0] is not None:
            raise ValueError("`noise` is for translations, and the corpora are trees: leave it out")
        if self.checks and linearisations[0] is not None:
            raise ValueError("`checks` is for translations, and the corpora are trees: leave it out")
        return self

    @model_validator(mode="after")
    def _check_directions(self) -> Self:
        """Raises ValueError for several directions without language codes, and for a temperature with only one."""
        if len(self.directions) == 1 and self.temperature is not None:
            raise ValueError("`temperature` mixes several directions, and all training corpora have one: leave it out")
        if len(self.directions) > 1:
            for corpus in (*self.train, *self.validations, *self.test.values()):
                _check_named(self.direction_of(corpus))
        return self

    def check_held_out(self, directions: Collection[Direction] = (), tags: Collection[str | None] = ()) -> None:
        """Raises ValueError if the model does not learn the direction or the tag of a validation or test corpus.

        `directions` and `tags` belong to the model with which the run begins; `directions` is empty unless the model
        has several.
        """
        learned, learned_tags = {*self.directions, *directions}, {*(corpus.tag for corpus in self.train), *tags}
        named = [("validation", corpus) for corpus in self.validations]
        for place, corpus in (*named, *((f"test.{name}", corpus) for name, corpus in self.test.items())):
            fault, direction = f"`data.{place}` ({name_of(corpus)})", self.direction_of(corpus)
            if len(self.directions) == 1 and not directions:
                if not direction.is_same(self.directions[0]):
                    raise ValueError(
                        f"{fault} translates {direction}, and the model learns {self.directions[0]} alone: exchange "
                        "the sides of the corpus with `direction`, or leave it out"
                    )
            elif direction.target not in {one.target for one in learned}:
                raise ValueError(
                    f"{fault}: no training corpus has the target language {direction.target}: add one, or leave it out"
                )
            if corpus.tag not in learned_tags:
                shown = ", ".join(sorted(tag or "null" for tag in learned_tags))
                raise ValueError(
                    f"{fault} has `tag: {corpus.tag or 'null'}`, and the model learns the tags {shown}: give the "
                    "corpus one of these tags, or a training corpus its tag"
                )

    @property
    def validations(self) -> tuple[CorpusSpec, ...]:
        """The corpora of `validation`; empty if it is null."""
        if self.validation is None:
            return ()
        return self.validation if isinstance(self.validation, tuple) else (self.validation,)

    @property
    def named_validations(self) -> dict[str, CorpusSpec]:
        """The validation corpora by direction and tag, for example `en-de`; equal names get numbers."""
        named: dict[str, CorpusSpec] = {}
        for corpus in self.validations:
            name = "-".join(part for part in (*self.direction_of(corpus), corpus.tag) if part) or "validation"
            same = sum(key == name or key.startswith(f"{name}.") for key in named)
            named[f"{name}.{same + 1}" if same else name] = corpus
        return named

    @property
    def tree_linearisation(self) -> TopDown | InOrder | None:
        """The linearisation of the corpora if they are trees; None if they are translations."""
        first = self.train[0]
        return first.linearisation if isinstance(first, Trees | EmbeddedTrees) else None

    def direction_of(self, corpus: CorpusSpec) -> Direction:
        """The languages of a corpus; if it names none, the languages of this section."""
        return _direction_of(corpus, Direction(self.source_language, self.target_language))

    def with_direction(self, corpus: CorpusSpec) -> CorpusSpec:
        """Copies a corpus and names the languages of its sides, if the corpus or this section specifies them."""
        if not isinstance(corpus, ParallelCorpus):
            return corpus
        source = corpus.source_language or self.source_language
        target = corpus.target_language or self.target_language
        return corpus.replaced(source_language=source, target_language=target)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of the training corpora, in order."""
        return tuple(dict.fromkeys(map(self.direction_of, self.train)))

    @property
    def source_tags(self) -> list[str]:
        """The tags that the source vocabulary needs: target languages, if there are several, and tags of corpora."""
        languages = {language_tag(direction.target or "") for direction in self.directions}
        tags = {corpus_tag(corpus.tag) for corpus in self.train if corpus.tag is not None}
        return [*(sorted(languages) if len(self.directions) > 1 else []), *sorted(tags)]

    def tags_before(self, corpus: CorpusSpec, *, names_language: bool) -> list[str]:
        """The tags before each source of a corpus.

        `names_language` is true if the model has several target languages.
        """
        language = self.direction_of(corpus).target
        tags = [language_tag(language or "")] if names_language else []
        return [*tags, *([corpus_tag(corpus.tag)] if corpus.tag is not None else [])]


def _direction_of(corpus: CorpusSpec, languages: Direction) -> Direction:
    """The direction of a corpus; `languages` are the defaults."""
    return corpus.languages_or(languages) if isinstance(corpus, ParallelCorpus) else languages


def _check_named(direction: Direction) -> None:
    """Raises ValueError if a direction, one of several, lacks language names that can be tags."""
    if direction.source == direction.target or not all(code and re.match(NAME, code) for code in direction):
        raise ValueError(
            "corpora of several directions need `source_language` and `target_language`, two codes without spaces, of "
            f"their own or in `data`; one corpus translates from {direction.source} to {direction.target}"
        )
