"""The lexicon: records for nouns, verbs and the other parts of speech, read from the tables of this package."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, TypeVar

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


CASES: dict[str, Case] = {"nom": "nominative", "acc": "accusative", "dat": "dative", "gen": "genitive"}
GENDERS: dict[str, Gender] = {"m": "m", "f": "f", "n": "n"}

Row = dict[str, str]
Entry = TypeVar("Entry")


def _read(table: str, parse: Callable[[Row], Entry]) -> tuple[Entry, ...]:
    """Parses the rows of a table, whose first line names the columns."""
    text = files(__package__).joinpath(f"{table}.tsv").read_text(encoding="utf-8")
    head, *lines = [line.split("\t") for line in text.rstrip("\n").split("\n")]
    return tuple(parse(dict(zip(head, line, strict=True))) for line in lines)


def _words(field: str) -> frozenset[str]:
    return frozenset(field.split())


def _noun(row: Row) -> Noun:
    countable = bool(row["plural_de"])
    at, to = row["at"].split(), row["to"].split()
    return Noun(
        english=row["english"],
        english_plural=(row["plural"] or regular_plural(row["english"])) if countable else "",
        german=row["german"],
        gender=GENDERS[row["gender"]],
        plural=row["plural_de"],
        genitive=row["genitive"],
        classes=frozenset([row["english"], *row["classes"].split(",")]),
        at=(at[0], at[1], CASES[at[2]]) if at else None,
        to=(to[0], CASES[to[1]]) if to else None,
    )


def regular_plural(noun: str) -> str:
    """Returns the regular English plural."""
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def select_nouns(selector: str) -> tuple[Noun, ...]:
    """Returns the nouns of a comma-separated list of classes and nouns; `text-work` is `text` without `work`."""
    terms = [term.split("-") for term in selector.split(",")]
    return tuple(
        noun
        for noun in NOUNS
        if any(first in noun.classes and not noun.classes & set(excluded) for first, *excluded in terms)
    )


def _slot(text: str) -> Slot:
    *english, government, selector = text.split()
    preposition, _, case = government.rpartition("+")
    return Slot("".join(english), preposition, CASES[case], select_nouns(selector))


def _verb(row: Row) -> Verb:
    english, _, particle = row["english"].partition(" ")
    reflexive = row["german"].startswith("sich ")
    prefix, _, german = row["german"].removeprefix("sich ").rpartition("|")
    return Verb(
        english=english,
        particle=particle,
        past=row["past"],
        participle=row["participle"],
        german=german,
        prefix=prefix,
        reflexive=reflexive,
        present=row["present"],
        german_past=row["past_de"],
        german_participle=row["participle_de"],
        auxiliary=row["auxiliary"] or "haben",
        subjects=select_nouns(row["subject"]),
        slots=tuple(_slot(part) for part in row["objects"].split(";") if part),
        complement=row["complement"],
        traits=_words(row["traits"]),
        manners=tuple(adverb for adverb in ADVERBS if row["manner"] and row["manner"] in adverb.use),
    )


def _adjective(row: Row) -> Adjective:
    stem = row["stem"] or row["german"]
    return Adjective(row["english"], row["german"], stem, select_nouns(row["classes"]), _words(row["traits"]))


def _time(row: Row) -> Time:
    english = sum(not part.startswith("(") for part in row["english"].split())
    german = len(row["german"].split())
    return Time(row["english"], row["german"], _words(row["tenses"]), min(english, german))


def _pronoun(row: Row) -> PersonalPronoun:
    person, _, number = row["person"].partition(" ")
    cases = {key: row[key] for key in ("nominative", "accusative", "dative", "reflexive")}
    return PersonalPronoun(row["english"], row["object"], person, "plural" if number else "singular", **cases)


def _modal(row: Row) -> Modal:
    tense: Literal["present", "past"] = "past" if row["tense"] == "past" else "present"
    return Modal(row["english"], tense, _words(row["polarity"]), row["singular"], row["plural"])


def _attribute(row: Row) -> Attribute:
    nouns, fillers = select_nouns(row["nouns"]), select_nouns(row["classes"])
    return Attribute(row["english"], row["german"], CASES[row["case"]], nouns, fillers)


NOUNS = _read("nouns", _noun)
NAMES = _read("names", lambda row: Name(row["english"], row["german"], row["classes"]))
ADVERBS = _read("adverbs", lambda row: Adverb(row["english"], row["german"], row["kind"], _words(row["use"])))
VERBS = _read("verbs", _verb)
ADJECTIVES = _read("adjectives", _adjective)
TIMES = _read("times", _time)
DETERMINERS = _read(
    "determiners",
    lambda row: Determiner(
        row["english"], row["german"], row["declension"], _words(row["numbers"]), row["tag"], _words(row["roles"])
    ),
)
PRONOUNS = _read("pronouns", _pronoun)
NUMERALS = _read(
    "numerals", lambda row: Numeral(row["english"], row["german"], int(row["hour"] or 0), _words(row["use"]))
)
MODALS = _read("modals", _modal)
ATTRIBUTES = _read("attributes", _attribute)
CONJUNCTIONS = _read(
    "conjunctions", lambda row: Conjunction(row["english"], row["german"], _words(row["tense"]), row["kind"])
)


def find_entry(entries: Sequence[Entry], english: str) -> Entry:
    """Returns the first entry with this English form."""
    return next(entry for entry in entries if getattr(entry, "english") == english)  # noqa: B009
