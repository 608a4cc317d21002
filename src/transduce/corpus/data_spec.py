"""The `data` section of a recipe: its corpora, and the filters and noise that apply to training pairs."""

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
    """Wraps a single corpus in a tuple and converts a list to a tuple, because strict validation requires a tuple."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


OneOrSeveral = Annotated[
    Annotated[CorpusSpec, Tag("one")]
    | Annotated[Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_tuple), Field(min_length=1)], Tag("several")],
    Discriminator(lambda value: "several" if isinstance(value, list | tuple) else "one"),
]
"""A single corpus, or a list of at least one corpus."""


class DataSpec(Spec):
    """The corpora to train, validate and test on, and the filters and noise that apply to training pairs."""

    # Languages and linearisation come before the corpora, because pydantic validates in this order and `_complete`
    # needs them.
    source_language: LanguageCode | None = Field(
        default=None, description="Language code of the source, such as `en`; saved with the model."
    )
    target_language: LanguageCode | None = Field(
        default=None, description="Language code of the target; also selects the tokeniser of some metrics."
    )
    linearisation: LinearisationSpec | None = Field(
        default=None, description="How parse trees are written as symbols; null means `{kind: top_down}`."
    )
    train: Annotated[tuple[CorpusSpec, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        description="Training corpora."
    )
    validation: OneOrSeveral | None = Field(
        default=None,
        description="Corpora on which each validation scores the model, for example one per direction. The mean of "
        "their scores selects the weights.",
    )
    test: dict[str, CorpusSpec] = Field(
        default_factory=dict,
        description="Test sets by name, for `transduce evaluate RUN --test NAME`. With `direction: both`, a set "
        "becomes two, such as NAME-en-de and NAME-de-en.",
    )
    temperature: float | None = Field(
        default=None,
        ge=1.0,
        le=1000.0,
        description="Sampling temperature T for several directions: a direction with n weighted pairs gets a share "
        "proportional to n^(1/T). Larger values favour small directions; null means 1.",
    )
    max_length: int = Field(
        default=256,
        ge=1,
        description="Maximum length of each side in tokens; longer training pairs are dropped.",
    )
    ratio: float | None = Field(
        default=3.0,
        ge=1.0,
        description="Maximum ratio between the lengths of the two sides in tokens; other training pairs are dropped. "
        "null keeps all. Ignored for trees.",
    )
    noise: Noise | None = Field(
        default=None,
        description="Adds noise to some training pairs in every epoch, so that the model copes with noisy input; `{}` "
        "uses the default shares. Not for trees.",
    )
    checks: dict[str, Literal["keep", "drop", "refuse"]] = Field(
        default_factory=dict,
        description="Action for training pairs that fail a check of `transduce inspect`, such as `{duplicate: drop}`. "
        "The default is `keep`, except for extreme cases of `copied` and `overlap` ([know your "
        "corpus](guides/know-your-corpus.md)). Not for trees.",
    )

    @field_validator("train", "validation", "test")
    @classmethod
    def _complete(cls, value: Any, info: ValidationInfo) -> Any:
        """Fills in the languages and the linearisation for corpora that need them but do not set them.

        A corpus with `direction: both` is replaced with two corpora, one for each direction. If it is a test set, the
        languages are appended to its name. Raises ValueError if a test set is named `validation`, if two test sets have
        the same name, or if a corpus with `direction: both` lacks language codes.
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
        """Raises ValueError unless all corpora are translations, or all are trees with the same linearisation.

        Also raises ValueError if `linearisation` is set for translations, or if `noise` or `checks` is set for trees.
        """
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
        """Raises ValueError if there are several directions without language codes, or if only one has a `temperature`.

        The temperature balances several directions, so it has no effect if there is only one.
        """
        if len(self.directions) == 1 and self.temperature is not None:
            raise ValueError("`temperature` mixes several directions, and all training corpora have one: leave it out")
        if len(self.directions) > 1:
            for corpus in (*self.train, *self.validations, *self.test.values()):
                _check_named(self.direction_of(corpus))
        return self

    def check_held_out(self, directions: Collection[Direction] = (), tags: Collection[str | None] = ()) -> None:
        """Raises ValueError if a validation or test corpus has a direction or a tag that the model does not learn.

        A single-direction model can only be evaluated in its direction, and a model with several directions only on its
        target languages. `directions` and `tags` are the directions and tags of the model that the run starts from.
        `directions` is empty unless that model has several directions.
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
        """The validation corpora as a tuple, which is empty if `validation` is null."""
        if self.validation is None:
            return ()
        return self.validation if isinstance(self.validation, tuple) else (self.validation,)

    @property
    def named_validations(self) -> dict[str, CorpusSpec]:
        """The validation corpora by name. The name consists of the direction and the tag, for example `en-de`.

        A corpus without languages or a tag is named `validation`. If several corpora have the same name, a number is
        appended to the second and later ones, as in `en-de.2`.
        """
        named: dict[str, CorpusSpec] = {}
        for corpus in self.validations:
            name = "-".join(part for part in (*self.direction_of(corpus), corpus.tag) if part) or "validation"
            same = sum(key == name or key.startswith(f"{name}.") for key in named)
            named[f"{name}.{same + 1}" if same else name] = corpus
        return named

    @property
    def tree_linearisation(self) -> TopDown | InOrder | None:
        """The linearisation of the corpora if they are trees, or None if they are translations."""
        first = self.train[0]
        return first.linearisation if isinstance(first, Trees | EmbeddedTrees) else None

    def direction_of(self, corpus: CorpusSpec) -> Direction:
        """Returns the direction of a corpus. A side that names no language takes it from this section."""
        return _direction_of(corpus, Direction(self.source_language, self.target_language))

    def with_direction(self, corpus: CorpusSpec) -> CorpusSpec:
        """Returns a copy of a corpus in which the languages of its sides are filled in.

        A side that names no language takes it from this section. It stays unspecified if this section names none
        either. A corpus of trees is returned unchanged.
        """
        if not isinstance(corpus, ParallelCorpus):
            return corpus
        source = corpus.source_language or self.source_language
        target = corpus.target_language or self.target_language
        return corpus.replaced(source_language=source, target_language=target)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The distinct directions of the training corpora, in the order in which they first appear."""
        return tuple(dict.fromkeys(map(self.direction_of, self.train)))

    @property
    def source_tags(self) -> list[str]:
        """The tags that the source vocabulary needs for the training corpora.

        If there are several directions, the tags of their target languages come first. The tags of the corpora follow.
        """
        languages = {language_tag(direction.target or "") for direction in self.directions}
        tags = {corpus_tag(corpus.tag) for corpus in self.train if corpus.tag is not None}
        return [*(sorted(languages) if len(self.directions) > 1 else []), *sorted(tags)]

    def tags_before(self, corpus: CorpusSpec, *, names_language: bool) -> list[str]:
        """Returns the tags that precede every source sentence of a corpus.

        They include the tag of the target language if `names_language` is true, which it is for a model with several
        directions.
        """
        language = self.direction_of(corpus).target
        tags = [language_tag(language or "")] if names_language else []
        return [*tags, *([corpus_tag(corpus.tag)] if corpus.tag is not None else [])]


def _direction_of(corpus: CorpusSpec, languages: Direction) -> Direction:
    """Returns the direction of a corpus. A side that names no language takes it from `languages`."""
    return corpus.languages_or(languages) if isinstance(corpus, ParallelCorpus) else languages


def _check_named(direction: Direction) -> None:
    """Raises ValueError unless a direction has two different language codes that can be used as tags."""
    if direction.source == direction.target or not all(code and re.match(NAME, code) for code in direction):
        raise ValueError(
            "corpora of several directions need `source_language` and `target_language`, two codes without spaces, of "
            f"their own or in `data`; one corpus translates from {direction.source} to {direction.target}"
        )
