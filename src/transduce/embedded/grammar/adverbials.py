"""Rules for adverbials: where, whither, when, how, how often, and which of them opens the clause."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from transduce.embedded.grammar.choices import Choice, Each, OneOf, Pick, evenly, maybe
from transduce.embedded.grammar.nominals import Nominal, noun_phrase
from transduce.embedded.grammar.pairs import Pairs
from transduce.embedded.lexicon import ADVERBS, NAMES, NOUNS, NUMERALS, TIMES, selected
from transduce.embedded.lexicon_entries import Adverb, Case
from transduce.embedded.syntax import (
    Adjuncts,
    Ask,
    Clock,
    During,
    Front,
    NamePhrase,
    NounPhrase,
    Place,
    SetTime,
)

WHERE, WHITHER = Ask("where", "wo"), Ask("where", "wohin")
WHEN, WHY = Ask("when", "wann"), Ask("why", "warum")

PLACES = tuple(noun for noun in NOUNS if noun.at)
GOALS = tuple(noun for noun in NOUNS if noun.to)
REGIONS = [name for name in NAMES if name.kind in ("city", "country")]
EVENTS = selected("event,meal")
DURING: tuple[tuple[str, str, Case], ...] = (
    ("before", "vor", "dative"),
    ("after", "nach", "dative"),
    ("during", "während", "genitive"),
)


@cache
def place(pairs: Pairs) -> Choice[Place]:
    """Where something happens."""

    def at(phrase: NounPhrase) -> Place:
        assert phrase.noun.at is not None
        return Place(phrase, *phrase.noun.at)

    regions = Each(lambda name: Place(NamePhrase(name), "in", "in", "dative"), Pick(REGIONS))
    return OneOf((5.0, Each(at, noun_phrase(pairs, PLACES, Nominal("place")))), (1.0, regions))


@cache
def direction(pairs: Pairs) -> Choice[Place]:
    """Where somebody goes."""

    def to(phrase: NounPhrase) -> Place:
        assert phrase.noun.to is not None
        return Place(phrase, "to", *phrase.noun.to)

    regions = Each(lambda name: Place(NamePhrase(name), "to", "nach", "dative"), Pick(REGIONS))
    return OneOf((3.0, Each(to, noun_phrase(pairs, GOALS, Nominal("place")))), (1.0, regions))


@cache
def time(pairs: Pairs, tense: str) -> Choice[SetTime | Clock | During]:
    """When something happens; what goes with the tense. The perfect only takes set phrases such as "today"."""
    phrases = Each(SetTime, Pick([entry for entry in TIMES if tense in entry.tenses]))
    if tense == "perfect":
        return phrases
    hours = [numeral for numeral in NUMERALS if numeral.hour]
    clock = Each(Clock, Pick(hours), Pick(["full", "half", "past", "to"]))
    return OneOf((6.0, phrases), (2.0, clock), (2.0, evenly(*(during(pairs, *words) for words in DURING))))


@cache
def during(pairs: Pairs, english: str, german: str, case: Case) -> Choice[During]:
    """Before, after or during an event."""
    events = noun_phrase(pairs, EVENTS, Nominal("fixed"))
    return Each(lambda phrase: During(english, german, case, phrase), events)


class Scope(NamedTuple):
    """Which adverbials a clause has room for."""

    frequent: bool  # how often
    manners: tuple[Adverb, ...]
    placed: bool  # where
    timed: bool  # when
    ended: bool  # whether some may follow the objects
    opening: bool  # whether one may open the clause
    ask: Ask | None


@cache
def adjuncts(pairs: Pairs, scope: Scope, tense: str) -> Choice[Adjuncts]:
    """The adverbials of a clause."""
    remarks = _adverbs(("remark",), tense)
    where = place(pairs) if scope.placed else Pick([])
    when = time(pairs, tense) if scope.timed else Pick([])
    here, now = maybe(0.25 if scope.ended else 0.0, where), maybe(0.25 if scope.ended else 0.0, when)
    often = maybe(0.12 if scope.frequent else 0.0, _adverbs(("frequency", "late"), tense))
    words = (often, maybe(0.2, Pick(scope.manners if scope.ended else ())))
    nothing = Pick([None])
    if scope.ask:
        return Each(_opened("ask"), *words, here, now, nothing, Pick([scope.ask]))
    plain = Each(_opened(None), *words, here, now, nothing, nothing)
    if not scope.opening:
        return plain
    return OneOf(
        (70.0, plain),
        (16.0, Each(_opened("time"), *words, here, when, nothing, nothing)),
        (6.0, Each(_opened("place"), *words, where, nothing, nothing, nothing)),
        (8.0, Each(_opened("remark"), *words, here, now, remarks, nothing)),
    )


def _opened(front: Front | None) -> Callable[..., Adjuncts]:
    return lambda *parts: Adjuncts(*parts)._replace(front=front)


def _adverbs(kinds: tuple[str, ...], tense: str) -> Choice[Adverb]:
    return Pick([word for word in ADVERBS if word.kind in kinds and tense in word.use])
