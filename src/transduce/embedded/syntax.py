"""The abstract sentence: what a derivation says, before either language has put it into words and order."""

from typing import Literal, NamedTuple, TypeAlias

from transduce.embedded.lexicon_entries import (
    Adjective,
    Adverb,
    Attribute,
    Case,
    Determiner,
    Modal,
    Name,
    Noun,
    Number,
    Numeral,
    Person,
    Time,
    Verb,
)

Tense = Literal["present", "past", "perfect", "pluperfect", "future", "infinitive"]


class Quality(NamedTuple):
    """An adjective, with "very" or without."""

    adjective: Adjective
    very: bool


class Possessor(NamedTuple):
    """Whose it is: "the teacher's book" or "the book of the teacher"."""

    owner: "NounPhrase | NamePhrase"
    before: bool


class Description(NamedTuple):
    """A prepositional phrase that describes a noun."""

    attribute: Attribute
    phrase: "NounPhrase"


class NounPhrase(NamedTuple):
    """A noun with all that belongs to it."""

    noun: Noun
    determiner: Determiner | None
    number: Number
    numeral: Numeral | None = None
    quality: Quality | None = None
    modifier: "Modifier | None" = None


class NamePhrase(NamedTuple):
    """A name standing alone."""

    name: Name


class Pronoun(NamedTuple):
    """A personal pronoun."""

    person: Person


class Both(NamedTuple):
    """Two phrases joined by "and"."""

    first: "NounPhrase | NamePhrase"
    second: "NounPhrase | NamePhrase"


class Query(NamedTuple):
    """What is asked for: "who" or "what"."""

    human: bool


class Gap(NamedTuple):
    """The place in a relative clause where its noun is understood, or the subject of an infinitive."""


class Weather(NamedTuple):
    """The "it" of "it rains"."""


Phrase: TypeAlias = NounPhrase | NamePhrase | Pronoun | Both | Query | Gap | Weather


class Place(NamedTuple):
    """Where, or where to."""

    phrase: NounPhrase | NamePhrase
    english: str
    german: str
    case: Case


class Clock(NamedTuple):
    """A time of day: the hour that is named and how far from it."""

    hour: Numeral
    relation: Literal["full", "half", "past", "to"]


class During(NamedTuple):
    """A time named by an event: before, after or during it."""

    english: str
    german: str
    case: Case
    phrase: NounPhrase


class Form(NamedTuple):
    """The shape of the predicate."""

    tense: Tense
    negated: bool = False
    progressive: bool = False
    passive: bool = False
    modal: Modal | None = None


class SetTime(NamedTuple):
    """A set phrase of time."""

    time: Time


class Ask(NamedTuple):
    """An adverb that asks: where, when, why."""

    english: str
    german: str


Front = Literal["time", "place", "remark", "ask"]


class Adjuncts(NamedTuple):
    """The adverbials of a clause, and which of them opens it."""

    frequency: Adverb | None = None
    manner: Adverb | None = None
    place: Place | None = None
    time: SetTime | Clock | During | None = None
    remark: Adverb | None = None
    ask: Ask | None = None
    front: Front | None = None


class Subordinate(NamedTuple):
    """A clause under its conjunction."""

    english: str
    german: str
    clause: "Clause"


class Clause(NamedTuple):
    """A subject and what is said of it; `objects` follow the verb's slots."""

    verb: Verb
    form: Form
    subject: Phrase
    objects: tuple[Phrase, ...]
    adjuncts: Adjuncts
    complement: "Complement | None" = None
    agent: Phrase | None = None


Modifier: TypeAlias = Possessor | Description | Clause
Complement: TypeAlias = Place | Quality | Subordinate | Clause


class Sentence(NamedTuple):
    """A main clause, perhaps with a subordinate clause before or after it, perhaps with a second main clause."""

    mood: Literal["statement", "question"]
    clause: Clause
    subordinate: Subordinate | None = None
    before: bool = False
    joint: tuple[str, str] | None = None
    second: Clause | None = None


def agreement(phrase: Phrase) -> int:
    """How a verb agrees with its subject: 0 with "I", 1 with any other singular, 2 with a plural or "you"."""
    match phrase:
        case Pronoun(person):
            if person.number == "plural" or person.person == "polite":
                return 2
            return 0 if person.person == "first" else 1
        case NounPhrase():
            return 2 if phrase.number == "plural" else 1
        case Both():
            return 2
    return 1


def is_asked(phrase: Phrase) -> bool:
    """Whether a phrase is what a question asks for: "who", "what", "which book"."""
    if isinstance(phrase, NounPhrase):
        return phrase.determiner is not None and "question" in phrase.determiner.roles
    return isinstance(phrase, Query)
