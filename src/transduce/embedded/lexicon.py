"""The lexicon: reads the tables beside this file into entries."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import TypeVar

from transduce.embedded.lexicon_entries import (
    Adjective,
    Adverb,
    Attribute,
    Case,
    Conjunction,
    Determiner,
    Gender,
    Modal,
    Name,
    Noun,
    Numeral,
    Person,
    Slot,
    Time,
    Verb,
)

CASES: dict[str, Case] = {"nom": "nominative", "acc": "accusative", "dat": "dative", "gen": "genitive"}
GENDERS: dict[str, Gender] = {"m": "m", "f": "f", "n": "n"}
TABLES = (
    "adjectives",
    "adverbs",
    "attributes",
    "conjunctions",
    "determiners",
    "modals",
    "names",
    "nouns",
    "numerals",
    "pronouns",
    "times",
    "verbs",
)


Row = dict[str, str]
Record = TypeVar("Record")


def rows(table: str) -> list[Row]:
    """The lines of one table, keyed by its first line."""
    text = files(__package__).joinpath(f"{table}.tsv").read_text(encoding="utf-8")
    head, *lines = [line.split("\t") for line in text.rstrip("\n").split("\n")]
    return [dict(zip(head, line, strict=True)) for line in lines]


def _read(table: str, record: Callable[[Row], Record]) -> tuple[Record, ...]:
    return tuple(record(row) for row in rows(table))


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
    """The plural that English makes by rule."""
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def selected(selector: str) -> tuple[Noun, ...]:
    """The nouns of a list such as `text-work,letter`: classes or single nouns, `-` taking away."""
    wanted = [part.split("-") for part in selector.split(",")]
    return tuple(
        noun for noun in NOUNS if any(first in noun.classes and not noun.classes & set(less) for first, *less in wanted)
    )


def _slot(text: str) -> Slot:
    *english, government, selector = text.split()
    preposition, _, case = government.rpartition("+")
    return Slot("".join(english), preposition, CASES[case], selected(selector))


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
        subjects=selected(row["subject"]),
        slots=tuple(_slot(part) for part in row["objects"].split(";") if part),
        complement=row["complement"],
        traits=_words(row["traits"]),
        manners=tuple(adverb for adverb in ADVERBS if row["manner"] and row["manner"] in adverb.use),
    )


def _adjective(row: Row) -> Adjective:
    stem = row["stem"] or row["german"]
    return Adjective(row["english"], row["german"], stem, selected(row["classes"]), _words(row["traits"]))


def _time(row: Row) -> Time:
    english = sum(not part.startswith("(") for part in row["english"].split())
    german = len(row["german"].split())
    return Time(row["english"], row["german"], _words(row["tenses"]), min(english, german))


def _person(row: Row) -> Person:
    person, _, number = row["person"].partition(" ")
    forms = {key: row[key] for key in ("nominative", "accusative", "dative", "reflexive")}
    return Person(row["english"], row["object"], person, "plural" if number else "singular", **forms)


NOUNS = _read("nouns", _noun)
NAMES = _read("names", lambda row: Name(row["english"], row["german"], row["classes"]))
ADVERBS = _read("adverbs", lambda row: Adverb(row["english"], row["german"], row["kind"], _words(row["use"])))
VERBS = _read("verbs", _verb)
ADJECTIVES = _read("adjectives", _adjective)
TIMES = _read("times", _time)
DETERMINERS = _read(
    "determiners",
    lambda row: Determiner(
        row["english"],
        row["german"],
        row["declension"],
        _words(row["numbers"]),
        row["tag"],
        _words(row["roles"]),
    ),
)
PERSONS = _read("pronouns", _person)
NUMERALS = _read(
    "numerals",
    lambda row: Numeral(row["english"], row["german"], int(row["hour"] or 0), _words(row["use"])),
)
MODALS = _read(
    "modals",
    lambda row: Modal(
        row["english"],
        "past" if row["tense"] == "past" else "present",
        _words(row["polarity"]),
        row["singular"],
        row["plural"],
    ),
)
ATTRIBUTES = _read(
    "attributes",
    lambda row: Attribute(
        row["english"],
        row["german"],
        CASES[row["case"]],
        selected(row["nouns"]),
        selected(row["classes"]),
    ),
)
CONJUNCTIONS = _read(
    "conjunctions",
    lambda row: Conjunction(row["english"], row["german"], _words(row["tense"]), row["kind"]),
)


@cache
def lemmas() -> int:
    """How many different pairs of an English and a German lemma the tables hold."""
    return sum(len({(row["english"], row.get("german")) for row in rows(table)}) for table in TABLES)


def named(entries: Sequence[Record], english: str) -> Record:
    """The one entry with this English form; for rules that speak of a certain word."""
    return next(entry for entry in entries if getattr(entry, "english") == english)  # noqa: B009
