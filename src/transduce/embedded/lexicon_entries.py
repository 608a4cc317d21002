"""The entries of the lexicon: records for nouns, verbs and the other parts of speech."""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Number = Literal["singular", "plural"]
Case = Literal["nominative", "accusative", "dative", "genitive"]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun; `plural` and `english_plural` are empty where the noun is uncountable."""

    english: str
    english_plural: str
    german: str
    gender: Gender
    plural: str
    genitive: str  # empty where it is regular
    classes: frozenset[str]
    at: tuple[str, str, Case] | None  # of a place: English and German preposition of location, German case
    to: tuple[str, Case] | None  # of a goal: German preposition of direction and its case


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """The name of a person, a city or a country."""

    english: str
    german: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """An object that a verb selects: its prepositions (may be empty), its German case and the nouns that fit."""

    english: str
    german: str
    case: Case
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
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
    subjects: tuple[Noun, ...]
    slots: tuple[Slot, ...]
    complement: str
    traits: frozenset[str]
    manners: tuple["Adverb", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective, the stem that takes the German endings, and the nouns that it describes."""

    english: str
    german: str
    stem: str
    nouns: tuple[Noun, ...]
    traits: frozenset[str]  # changing: goes with "become"; absolute: never with "very"


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb of one word in both languages; `use` lists tenses, or for manner the kinds of verbs."""

    english: str
    german: str
    kind: str
    use: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A fixed expression of time: its English tree, its German words, the tenses that it goes with."""

    english: str
    german: str
    tenses: frozenset[str]
    aligned: int  # words that are aligned one by one from the end; earlier words are aligned to the first of these


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """An article, possessive or quantifier; `declension` selects its endings and those of adjectives after it."""

    english: str
    german: str
    declension: str
    numbers: frozenset[str]
    tag: str
    roles: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class PersonalPronoun:
    """A personal pronoun in all cases."""

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
    """A numeral; `hour` is its hour on the clock, or 0."""

    english: str
    german: str
    hour: int
    use: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb in one tense; "want to" and "have to" count as modals because their German verbs are modals."""

    english: str
    tense: Literal["present", "past"]
    polarity: frozenset[str]
    singular: str
    plural: str


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """The preposition of a phrase that modifies a noun, the nouns that it modifies and the nouns that follow it."""

    english: str
    german: str
    case: Case
    nouns: tuple[Noun, ...]
    fillers: tuple[Noun, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conjunction:
    """A subordinating conjunction and its tenses; `kind` is "reason", or "time" (no future and no negation)."""

    english: str
    german: str
    tenses: frozenset[str]
    kind: str
