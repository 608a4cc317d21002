"""The lexicon of the embedded corpus, with a record type for each part of speech.

The records are read from the TSV tables of this package. The columns of a table are named after the fields of the
record type, and the type of a field determines how its cells are converted.
"""

from collections.abc import Iterable
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

CASES = {"nom": "nominative", "acc": "accusative", "dat": "dative", "gen": "genitive"}  # by abbreviation in the tables

Gender = Literal["m", "f", "n"]
Number = Literal["singular", "plural"]
Case = Annotated[
    Literal["nominative", "accusative", "dative", "genitive"], BeforeValidator(lambda cell: CASES.get(cell, cell))
]
Words = Annotated[frozenset[str], BeforeValidator(str.split)]


class LexiconEntry(BaseModel):
    """A row of a table.

    Entries are compared by identity, so that words with the same spelling remain different entries.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def select_nouns(selector: str) -> tuple["Noun", ...]:
    """Returns the nouns that a comma-separated list of classes and individual nouns selects.

    The term `text-work` selects the nouns of the class `text` that do not belong to the class `work`.
    """
    terms = [term.split("-") for term in selector.split(",")]
    return tuple(
        noun
        for noun in NOUNS
        if any(first in noun.classes and not noun.classes & set(excluded) for first, *excluded in terms)
    )


Nouns = Annotated[tuple["Noun", ...], BeforeValidator(select_nouns)]


class Noun(LexiconEntry):
    """A noun.

    `plural` and `english_plural` are empty if the noun is uncountable.
    """

    english: str
    english_plural: str
    german: str
    gender: Gender
    plural: str
    genitive: str  # empty if the genitive is regular
    classes: frozenset[str]
    at: Annotated[tuple[str, str, Case] | None, BeforeValidator(lambda cell: tuple(cell.split()) or None)]
    """For a place: the English and German prepositions of location, and the German case."""
    to: Annotated[tuple[str, Case] | None, BeforeValidator(lambda cell: tuple(cell.split()) or None)]
    """For the goal of a movement: the German preposition of direction, and its case."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, row: dict[str, str]) -> dict[str, Any]:
        """Adds the regular English plural if a countable noun has no other, and adds the noun to its own classes."""
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
    """A slot for an object that the verb selects.

    It holds the English and German prepositions, which may be empty, the German case, and the nouns that may fill the
    slot.
    """

    english: str
    german: str
    case: Case
    nouns: Nouns


class Verb(LexiconEntry):
    """A verb with its principal parts, the subjects and objects that it selects, and suitable adverbs of manner."""

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
        """Splits cells such as "look forward", "sich vor|bereiten" and "for auf+acc event;acc text" into parts."""
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
    """An adjective, with the stem to which German endings are added and the nouns that it can describe."""

    english: str
    german: str
    stem: str
    nouns: Nouns
    traits: Words
    """`changing`: can follow "become"; `absolute`: cannot be preceded by "very"."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, row: dict[str, str]) -> dict[str, str]:
        return {**row, "stem": row["stem"] or row["german"]}


class Adverb(LexiconEntry):
    """An adverb that is a single word in both languages.

    `use` lists the tenses with which the adverb can occur or, for an adverb of manner, the kinds of verbs that it can
    modify.
    """

    english: str
    german: str
    kind: str
    use: Words


class Time(LexiconEntry):
    """A fixed expression of time, with its English tree, its German words and the tenses with which it can occur."""

    english: str
    german: str
    tenses: Words

    @property
    def aligned(self) -> int:
        """The number of words at the end of the expression that are aligned one to one.

        All earlier words are aligned to the first of these words.
        """
        english = sum(not part.startswith("(") for part in self.english.split())
        return min(english, len(self.german.split()))


class Determiner(LexiconEntry):
    """An article, possessive or quantifier.

    `declension` selects the endings of the determiner and of the adjectives that follow it.
    """

    english: str
    german: str
    declension: str
    numbers: Words
    tag: str
    roles: Words


class PersonalPronoun(LexiconEntry):
    """A personal pronoun in all its cases.

    `person` is "first", "third" or, for the German "Sie", "polite".
    """

    english: str
    english_object: str
    person: str
    number: Number
    nominative: str
    accusative: str
    dative: str
    reflexive: str


class Numeral(LexiconEntry):
    """A numeral.

    `hour` is the hour that the numeral denotes on a clock, or 0 if it is not used for hours.
    """

    english: str
    german: str
    hour: Annotated[int, BeforeValidator(lambda cell: cell or 0)]
    use: Words


class Modal(LexiconEntry):
    """A modal verb in one tense.

    "want to" and "have to" are included because their German translations are modal verbs.
    """

    english: str
    tense: Literal["present", "past"]
    polarity: Words
    singular: str
    plural: str


class Attribute(LexiconEntry):
    """The preposition of a phrase that modifies a noun.

    `nouns` are the nouns that such a phrase can modify, and `fillers` are the nouns that can follow the preposition.
    """

    english: str
    german: str
    case: Case
    nouns: Nouns
    fillers: Nouns


class Conjunction(LexiconEntry):
    """A subordinating conjunction and the tenses with which it can occur.

    `kind` is "reason" or "time". A time clause is neither negated nor in the future tense.
    """

    english: str
    german: str
    tenses: Words
    kind: str


AnyEntry = TypeVar("AnyEntry", bound=LexiconEntry)


def read_rows(table: str) -> list[dict[str, Any]]:
    """Reads the rows of a table of this package, as dictionaries keyed by the column names in the first line."""
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
    """Returns the first entry that has this English form."""
    return next(entry for entry in entries if getattr(entry, "english") == english)  # noqa: B009
