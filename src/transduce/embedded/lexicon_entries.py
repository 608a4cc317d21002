"""The entries of the lexicon: nouns, verbs and other kinds of words, as records."""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Number = Literal["singular", "plural"]
Case = Literal["nominative", "accusative", "dative", "genitive"]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun; `plural` and `english_plural` are empty for what cannot be counted."""

    english: str
    english_plural: str
    german: str
    gender: Gender
    plural: str
    genitive: str
    classes: frozenset[str]
    at: tuple[str, str, Case] | None  # English and German preposition of being there
    to: tuple[str, Case] | None  # German preposition of going there


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """The name of a person, a city or a country."""

    english: str
    german: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """An object that a verb asks for: its prepositions (or none), its German case, the nouns that fit."""

    english: str
    german: str
    case: Case
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its principal parts, what it selects, and what may be said with it."""

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
    subjects: tuple[Noun, ...]
    slots: tuple[Slot, ...]
    complement: str
    traits: frozenset[str]
    manners: tuple["Adverb", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective, the stem that its endings are put on, and the nouns it goes with."""

    english: str
    german: str
    stem: str
    nouns: tuple[Noun, ...]
    traits: frozenset[str]  # changing: one can become so; absolute: not "very"


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb of one word on both sides."""

    english: str
    german: str
    kind: str
    use: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A set phrase of time: its English tree, its German words, the tenses it goes with."""

    english: str
    german: str
    tenses: frozenset[str]
    shared: int  # how many words from the end are paired one by one; those before them share the last number


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """An article, possessive or quantifier; `declension` says which endings it and its adjectives take."""

    english: str
    german: str
    declension: str
    numbers: frozenset[str]
    tag: str
    roles: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """A personal pronoun in all its forms."""

    english: str
    english_object: str
    person: str
    number: Number
    nominative: str
    accusative: str
    dative: str
    reflexive: str


@dataclass(frozen=True, slots=True, eq=False)
class Numeral:
    """A number; `hour` is its place on the clock, or 0."""

    english: str
    german: str
    hour: int
    use: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb in one tense; English "want to" and "have to" are modals here because German has modals."""

    english: str
    tense: Literal["present", "past"]
    polarity: frozenset[str]
    singular: str
    plural: str


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A prepositional phrase that describes a noun."""

    english: str
    german: str
    case: Case
    nouns: tuple[Noun, ...]
    fillers: tuple[Noun, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conjunction:
    """A subordinating conjunction, with the tense it goes with."""

    english: str
    german: str
    tenses: frozenset[str]
    kind: str  # reason, or time: where English has neither "will" nor, as a rule, "not"
