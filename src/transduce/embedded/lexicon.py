"""The lexicon: records for nouns, verbs and the other parts of speech, read from the tables of this package.

Each column of a table has the name of a field, whose type determines how the cells are converted.
"""

from collections.abc import Iterable
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

CASES = {"nom": "nominative", "acc": "accusative", "dat": "dative", "gen": "genitive"}  # as tables abbreviate them

Gender = Literal["m", "f", "n"]
Number = Literal["singular", "plural"]
Case = Annotated[
    Literal["nominative", "accusative", "dative", "genitive"], BeforeValidator(lambda cell: CASES.get(cell, cell))
]
Words = Annotated[frozenset[str], BeforeValidator(str.split)]


class LexiconEntry(BaseModel):
    """A row of a table, equal only to itself: words of the same form are different entries."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def select_nouns(selector: str) -> tuple["Noun", ...]:
    """Selects the nouns in a comma-separated list of classes and nouns; `text-work` means `text` without `work`."""
    terms = [term.split("-") for term in selector.split(",")]
    return tuple(
        noun
        for noun in NOUNS
        if any(first in noun.classes and not noun.classes & set(excluded) for first, *excluded in terms)
    )


Nouns = Annotated[tuple["Noun", ...], BeforeValidator(select_nouns)]


class Noun(LexiconEntry):
    """A noun; `plural` and `english_plural` are empty if the noun is uncountable."""

    english: str
    english_plural: str
    german: str
    gender: Gender
    plural: str
    genitive: str  # empty if it is regular
    classes: frozenset[str]
    at: Annotated[tuple[str, str, Case] | None, BeforeValidator(lambda cell: tuple(cell.split()) or None)]
    """For a place: English and German preposition of location, German case."""
    to: Annotated[tuple[str, Case] | None, BeforeValidator(lambda cell: tuple(cell.split()) or None)]
    """For a goal: German preposition of direction and its case."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, row: dict[str, str]) -> dict[str, Any]:
        """Adds the regular English plural of a countable noun, and the noun itself to its classes."""
        english, plural = row["english"], ""
        if row["plural"]:
            regular = english + ("es" if english.endswith(("s", "x", "ch", "sh")) else "s")
            plural = row["english_plural"] or regular
        return {**row, "english_plural": plural, "classes": [english, *row["classes"].split(",")]}


class Name(LexiconEntry):
    """The name of a person, a city or a country."""

    english: str
    german: str
    kind: str


class Slot(LexiconEntry):
    """An object that a verb selects: its prepositions (may be empty), its German case and the nouns that fit."""

    english: str
    german: str
    case: Case
    nouns: Nouns


class Verb(LexiconEntry):
    """A verb: its principal parts, the subjects and objects that it selects, and its adverbs of manner."""

    english: str
    particle: str
    past: str
    participle: str
    german: str
    prefix: str
    reflexive: bool
    present: str
    german_past: str
    german_participle: str
    auxiliary: str
    subjects: Nouns
    slots: tuple[Slot, ...]
    complement: str
    traits: Words
    manners: tuple["Adverb", ...]

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, row: dict[str, str]) -> dict[str, Any]:
        """Splits "look forward", "sich vor|bereiten", and objects such as "for auf+acc event;acc text"."""
        english, _, particle = row["english"].partition(" ")
        prefix, _, german = row["german"].removeprefix("sich ").rpartition("|")
        slots = []
        for text in filter(None, row["slots"].split(";")):
            *preposition, government, selector = text.split()
            german_preposition, _, case = government.rpartition("+")
            slots.append(
                {"english": "".join(preposition), "german": german_preposition, "case": case, "nouns": selector}
            )
        return {
            **row,
            "english": english,
            "particle": particle,
            "german": german,
            "prefix": prefix,
            "reflexive": row["german"].startswith("sich "),
            "auxiliary": row["auxiliary"] or "haben",
            "slots": slots,
            "manners": [adverb for adverb in ADVERBS if row["manners"] and row["manners"] in adverb.use],
        }


class Adjective(LexiconEntry):
    """An adjective, the stem that takes the German endings, and the nouns that it describes."""

    english: str
    german: str
    stem: str
    nouns: Nouns
    traits: Words
    """changing: goes with "become"; absolute: never with "very"."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, row: dict[str, str]) -> dict[str, str]:
        return {**row, "stem": row["stem"] or row["german"]}


class Adverb(LexiconEntry):
    """An adverb of one word in both languages; `use` lists tenses or, for adverbs of manner, the kinds of verbs."""

    english: str
    german: str
    kind: str
    use: Words


class Time(LexiconEntry):
    """A fixed expression of time: its English tree, its German words, the tenses that it goes with."""

    english: str
    german: str
    tenses: Words

    @property
    def aligned(self) -> int:
        """Number of words that are aligned one by one from the end; earlier words are aligned to the first of them."""
        english = sum(not part.startswith("(") for part in self.english.split())
        return min(english, len(self.german.split()))


class Determiner(LexiconEntry):
    """An article, possessive or quantifier; `declension` selects its endings and the endings of adjectives after it."""

    english: str
    german: str
    declension: str
    numbers: Words
    tag: str
    roles: Words


class PersonalPronoun(LexiconEntry):
    """A personal pronoun in all cases; `person` is "first", "third" or "polite"."""

    english: str
    english_object: str
    person: str
    number: Number
    nominative: str
    accusative: str
    dative: str
    reflexive: str


class Numeral(LexiconEntry):
    """A numeral; `hour` is its hour on the clock, or 0."""

    english: str
    german: str
    hour: Annotated[int, BeforeValidator(lambda cell: cell or 0)]
    use: Words


class Modal(LexiconEntry):
    """A modal verb in one tense; "want to" and "have to" count as modals because their German verbs are modals."""

    english: str
    tense: Literal["present", "past"]
    polarity: Words
    singular: str
    plural: str


class Attribute(LexiconEntry):
    """The preposition of a phrase that modifies a noun, the nouns that it modifies and the nouns that follow it."""

    english: str
    german: str
    case: Case
    nouns: Nouns
    fillers: Nouns


class Conjunction(LexiconEntry):
    """A subordinating conjunction and its tenses; `kind` is "reason", or "time" (no future and no negation)."""

    english: str
    german: str
    tenses: Words
    kind: str


AnyEntry = TypeVar("AnyEntry", bound=LexiconEntry)


def read_rows(table: str) -> list[dict[str, Any]]:
    """Rows of a table of this package, whose first line names the columns."""
    text = files(__package__).joinpath(f"{table}.tsv").read_text(encoding="utf-8")
    head, *lines = [line.split("\t") for line in text.rstrip("\n").split("\n")]
    return [dict(zip(head, line, strict=True)) for line in lines]


def _read(table: str, kind: type[AnyEntry]) -> tuple[AnyEntry, ...]:
    return tuple(map(kind.model_validate, read_rows(table)))


NOUNS = _read("nouns", Noun)
NAMES = _read("names", Name)
ADVERBS = _read("adverbs", Adverb)
VERBS = _read("verbs", Verb)
ADJECTIVES = _read("adjectives", Adjective)
TIMES = _read("times", Time)
DETERMINERS = _read("determiners", Determiner)
PRONOUNS = _read("pronouns", PersonalPronoun)
NUMERALS = _read("numerals", Numeral)
MODALS = _read("modals", Modal)
ATTRIBUTES = _read("attributes", Attribute)
CONJUNCTIONS = _read("conjunctions", Conjunction)


def find_entry(entries: Iterable[AnyEntry], english: str) -> AnyEntry:
    """The first entry with this English form."""
    return next(entry for entry in entries if getattr(entry, "english") == english)  # noqa: B009
