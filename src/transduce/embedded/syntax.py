"""The abstract sentence: the meaning of a derivation, before either language gives it words and order."""

from enum import IntEnum
from typing import Literal, NamedTuple, TypeAlias

from transduce.embedded.lexicon import (
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
    PersonalPronoun,
    Time,
    Verb,
)

Tense = Literal["present", "past", "perfect", "pluperfect", "future", "infinitive"]

Key: TypeAlias = tuple[int, str]
"""The id of a node of the abstract sentence and the role of a word in it; words with a common key are aligned."""

END: Key = (0, "end")
"""Key of the punctuation at the end of a sentence."""


class AdjectivePhrase(NamedTuple):
    """An adjective, with or without "very"."""

    adjective: Adjective
    very: bool


class Possessor(NamedTuple):
    """The owner of a noun, before it ("the teacher's book") or after it ("the book of the teacher")."""

    owner: "NounPhrase | NamePhrase"
    before: bool


class PrepositionalModifier(NamedTuple):
    """A prepositional phrase that modifies a noun."""

    attribute: Attribute
    phrase: "NounPhrase"


class NounPhrase(NamedTuple):
    """A noun with its determiner, numeral, adjective and modifier."""

    noun: Noun
    determiner: Determiner | None
    number: Number
    numeral: Numeral | None = None
    adjective_phrase: AdjectivePhrase | None = None
    modifier: "Modifier | None" = None


class NamePhrase(NamedTuple):
    """A name as a phrase."""

    name: Name


class Pronoun(NamedTuple):
    """A personal pronoun as a phrase."""

    pronoun: PersonalPronoun


class Coordination(NamedTuple):
    """Two phrases joined by "and"."""

    first: "NounPhrase | NamePhrase"
    second: "NounPhrase | NamePhrase"


class InterrogativePronoun(NamedTuple):
    """The pronoun "who" or "what" of a question."""

    human: bool


class Gap(NamedTuple):
    """The position of the antecedent in a relative clause, or the unspoken subject of an infinitive."""


class Expletive(NamedTuple):
    """The "it" of "it rains"."""


Phrase: TypeAlias = NounPhrase | NamePhrase | Pronoun | Coordination | InterrogativePronoun | Gap | Expletive


class Place(NamedTuple):
    """A place or a direction, with its English and German preposition and the German case."""

    phrase: NounPhrase | NamePhrase
    english: str
    german: str
    case: Case


class ClockTime(NamedTuple):
    """A time of day: an hour and the relation to it."""

    hour: Numeral
    relation: Literal["full", "half", "past", "to"]


class EventTime(NamedTuple):
    """A time before, after or during an event, with its English and German preposition and the German case."""

    english: str
    german: str
    case: Case
    phrase: NounPhrase


class VerbForm(NamedTuple):
    """Tense, polarity, aspect, voice and modality of a predicate."""

    tense: Tense
    negated: bool = False
    progressive: bool = False
    passive: bool = False
    modal: Modal | None = None


class TimeExpression(NamedTuple):
    """A fixed expression of time, for example "last week"."""

    time: Time


class InterrogativeAdverb(NamedTuple):
    """The adverb "where", "when" or "why" of a question."""

    english: str
    german: str


Front = Literal["time", "place", "remark"]


class Adjuncts(NamedTuple):
    """The adverbials of a clause; `front` names the adverbial that opens it, and `remark` is a sentence adverb."""

    frequency: Adverb | None = None
    manner: Adverb | None = None
    place: Place | None = None
    time: TimeExpression | ClockTime | EventTime | None = None
    remark: Adverb | None = None
    question: InterrogativeAdverb | None = None
    front: Front | None = None


class SubordinateClause(NamedTuple):
    """A clause with its English and German conjunction."""

    english: str
    german: str
    clause: "Clause"


class Clause(NamedTuple):
    """A subject and its predicate; `objects` has an object for each slot of the verb, in order."""

    verb: Verb
    form: VerbForm
    subject: Phrase
    objects: tuple[Phrase, ...]
    adjuncts: Adjuncts
    complement: "Complement | None" = None
    agent: Phrase | None = None


Modifier: TypeAlias = Possessor | PrepositionalModifier | Clause
Complement: TypeAlias = Place | AdjectivePhrase | SubordinateClause | Clause


class Sentence(NamedTuple):
    """A main clause, optionally with a subordinate clause, or with a conjunction and a second main clause."""

    mood: Literal["statement", "question"]
    clause: Clause
    subordinate: SubordinateClause | None = None
    subordinate_first: bool = False
    conjunction: tuple[str, str] | None = None
    second: Clause | None = None


class Agreement(IntEnum):
    """How a verb agrees with its subject; the value is a column in the tables of irregular verbs."""

    FIRST = 0  # with "I"
    SINGULAR = 1  # with any other singular
    PLURAL = 2  # with a plural or "you"


def agreement_of(phrase: Phrase) -> Agreement:
    """How a verb agrees with this subject."""
    match phrase:
        case Pronoun(pronoun):
            if pronoun.number == "plural" or pronoun.person == "polite":
                return Agreement.PLURAL
            return Agreement.FIRST if pronoun.person == "first" else Agreement.SINGULAR
        case NounPhrase():
            return Agreement.PLURAL if phrase.number == "plural" else Agreement.SINGULAR
        case Coordination():
            return Agreement.PLURAL
    return Agreement.SINGULAR


def is_interrogative(phrase: Phrase) -> bool:
    """Whether a question asks for the phrase: "who", "what", "which book"."""
    if isinstance(phrase, NounPhrase):
        return phrase.determiner is not None and "question" in phrase.determiner.roles
    return isinstance(phrase, InterrogativePronoun)
