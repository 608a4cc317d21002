"""Abstract syntax trees, from which the English and German modules derive their words and word order.

A tree holds what the two languages have in common, such as lexicon entries, tense, number and the roles of phrases, but
neither inflected forms nor word order.
"""

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
"""Identifies a word by the ID of its node in the abstract syntax tree and by its role in that node.

Words that share a key are aligned.
"""

END: Key = (0, "end")
"""The key of the punctuation mark that ends a sentence."""


class AdjectivePhrase(NamedTuple):
    """An adjective, optionally preceded by "very"."""

    adjective: Adjective
    very: bool


class Possessor(NamedTuple):
    """The owner of a noun, which stands before it ("the teacher's book") or after it ("the book of the teacher")."""

    owner: "NounPhrase | NamePhrase"
    before: bool


class PrepositionalModifier(NamedTuple):
    """A prepositional phrase that modifies a noun."""

    attribute: Attribute
    phrase: "NounPhrase"


class NounPhrase(NamedTuple):
    """A noun with an optional determiner, numeral, adjective phrase and modifier."""

    noun: Noun
    determiner: Determiner | None
    number: Number
    numeral: Numeral | None = None
    adjective_phrase: AdjectivePhrase | None = None
    modifier: "Modifier | None" = None


class NamePhrase(NamedTuple):
    """A phrase that consists of a name."""

    name: Name


class Pronoun(NamedTuple):
    """A phrase that consists of a personal pronoun."""

    pronoun: PersonalPronoun


class Coordination(NamedTuple):
    """Two phrases joined by "and"."""

    first: "NounPhrase | NamePhrase"
    second: "NounPhrase | NamePhrase"


class InterrogativePronoun(NamedTuple):
    """The interrogative pronoun of a question: "who" if `human` is true, otherwise "what"."""

    human: bool


class Gap(NamedTuple):
    """An empty phrase: the gap of a relative clause, or the implicit subject of an infinitive."""


class Expletive(NamedTuple):
    """The expletive subject "it", as in "it rains"."""


Phrase: TypeAlias = NounPhrase | NamePhrase | Pronoun | Coordination | InterrogativePronoun | Gap | Expletive


class Place(NamedTuple):
    """A phrase of place or direction, with its English and German prepositions and the case of the German phrase."""

    phrase: NounPhrase | NamePhrase
    english: str
    german: str
    case: Case


class ClockTime(NamedTuple):
    """A time of day, which is given by an hour and its relation to that hour, as in "quarter past seven"."""

    hour: Numeral
    relation: Literal["full", "half", "past", "to"]


class EventTime(NamedTuple):
    """A time before, after or during an event, with its English and German prepositions and the German case."""

    english: str
    german: str
    case: Case
    phrase: NounPhrase


class VerbForm(NamedTuple):
    """The tense, polarity, aspect, voice and modality of a predicate."""

    tense: Tense
    negated: bool = False
    progressive: bool = False
    passive: bool = False
    modal: Modal | None = None


class TimeExpression(NamedTuple):
    """A fixed expression of time, such as "last week"."""

    time: Time


class InterrogativeAdverb(NamedTuple):
    """The adverb "where", "when" or "why" of a question, with its German translation."""

    english: str
    german: str


Front = Literal["time", "place", "remark"]


class Adjuncts(NamedTuple):
    """The adverbials of a clause.

    `front` names the adverbial that opens the clause, or is None if no adverbial is fronted. `remark` is a sentence
    adverb.
    """

    frequency: Adverb | None = None
    manner: Adverb | None = None
    place: Place | None = None
    time: TimeExpression | ClockTime | EventTime | None = None
    remark: Adverb | None = None
    question: InterrogativeAdverb | None = None
    front: Front | None = None


class SubordinateClause(NamedTuple):
    """A clause with the English and German conjunctions that introduce it."""

    english: str
    german: str
    clause: "Clause"


class Clause(NamedTuple):
    """A subject and its predicate.

    `objects` holds one phrase for each slot of the verb, in order. In the passive it is empty, and `agent` is the
    phrase that follows "by", if there is one.
    """

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
    """A question or a statement.

    Either consists of one main clause. A statement may also have a subordinate clause, or a coordinating conjunction
    and a second main clause.
    """

    mood: Literal["statement", "question"]
    clause: Clause
    subordinate: SubordinateClause | None = None
    subordinate_first: bool = False
    conjunction: tuple[str, str] | None = None
    second: Clause | None = None


class Agreement(IntEnum):
    """The form in which a verb agrees with its subject, numbered like the columns in the tables of irregular verbs."""

    FIRST = 0  # with "I"
    SINGULAR = 1  # with any other singular subject
    PLURAL = 2  # with a plural subject or with "you"


def agreement_of(phrase: Phrase) -> Agreement:
    """Returns the form in which a verb agrees with the given subject."""
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
    """Returns True if the phrase is what a question asks for, such as "who", "what" or "which book"."""
    if isinstance(phrase, NounPhrase):
        return phrase.determiner is not None and "question" in phrase.determiner.roles
    return isinstance(phrase, InterrogativePronoun)
