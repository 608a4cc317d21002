"""Rules for adverbials: place, direction, time, frequency and manner, and the one that opens the clause."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from transduce.embedded.grammar.choices import Choice, Combine, OneOf, Pick, evenly, maybe
from transduce.embedded.grammar.held_out_pairs import Pairs
from transduce.embedded.grammar.nominals import Nominal, noun_phrase
from transduce.embedded.lexicon import ADVERBS, NAMES, NOUNS, NUMERALS, TIMES, select_nouns
from transduce.embedded.lexicon_entries import Adverb, Case
from transduce.embedded.syntax import (
    Adjuncts,
    ClockTime,
    EventTime,
    Front,
    InterrogativeAdverb,
    NamePhrase,
    NounPhrase,
    Place,
    TimeExpression,
)

WHERE, WHITHER = InterrogativeAdverb("where", "wo"), InterrogativeAdverb("where", "wohin")
WHEN, WHY = InterrogativeAdverb("when", "wann"), InterrogativeAdverb("why", "warum")

PLACES = tuple(noun for noun in NOUNS if noun.at)
GOALS = tuple(noun for noun in NOUNS if noun.to)
REGIONS = [name for name in NAMES if name.kind in ("city", "country")]
EVENTS = select_nouns("event,meal")
EVENT_PREPOSITIONS: tuple[tuple[str, str, Case], ...] = (
    ("before", "vor", "dative"),
    ("after", "nach", "dative"),
    ("during", "während", "genitive"),
)


@cache
def place(pairs: Pairs) -> Choice[Place]:
    """Returns the places where something happens."""

    def at(phrase: NounPhrase) -> Place:
        assert phrase.noun.at is not None
        return Place(phrase, *phrase.noun.at)

    regions = Combine(lambda name: Place(NamePhrase(name), "in", "in", "dative"), Pick(REGIONS))
    return OneOf((5.0, Combine(at, noun_phrase(pairs, PLACES, Nominal("place")))), (1.0, regions))


@cache
def direction(pairs: Pairs) -> Choice[Place]:
    """Returns the goals of a movement."""

    def to(phrase: NounPhrase) -> Place:
        assert phrase.noun.to is not None
        return Place(phrase, "to", *phrase.noun.to)

    regions = Combine(lambda name: Place(NamePhrase(name), "to", "nach", "dative"), Pick(REGIONS))
    return OneOf((3.0, Combine(to, noun_phrase(pairs, GOALS, Nominal("place")))), (1.0, regions))


@cache
def time(pairs: Pairs, tense: str) -> Choice[TimeExpression | ClockTime | EventTime]:
    """Returns the adverbials of time of a tense; the perfect takes fixed expressions such as "today" only."""
    expressions = Combine(TimeExpression, Pick([entry for entry in TIMES if tense in entry.tenses]))
    if tense == "perfect":
        return expressions
    hours = [numeral for numeral in NUMERALS if numeral.hour]
    clock = Combine(ClockTime, Pick(hours), Pick(["full", "half", "past", "to"]))
    events = evenly(*(event_time(pairs, *words) for words in EVENT_PREPOSITIONS))
    return OneOf((6.0, expressions), (2.0, clock), (2.0, events))


@cache
def event_time(pairs: Pairs, english: str, german: str, case: Case) -> Choice[EventTime]:
    """Returns the times before, after or during an event."""
    events = noun_phrase(pairs, EVENTS, Nominal("fixed"))
    return Combine(lambda phrase: EventTime(english, german, case, phrase), events)


class AdverbialSlots(NamedTuple):
    """The adverbials that a clause may have."""

    frequency: bool
    manners: tuple[Adverb, ...]
    place: bool
    time: bool
    final: bool  # adverbials may follow the objects
    opening: bool  # an adverbial may open the clause
    question: InterrogativeAdverb | None  # opens the clause


@cache
def adjuncts(pairs: Pairs, slots: AdverbialSlots, tense: str) -> Choice[Adjuncts]:
    """Returns the adverbials of a clause."""
    remarks = _adverbs(("remark",), tense)
    places = place(pairs) if slots.place else Pick([])
    times = time(pairs, tense) if slots.time else Pick([])
    final_place, final_time = (maybe(0.25 if slots.final else 0.0, choice) for choice in (places, times))
    frequency = maybe(0.12 if slots.frequency else 0.0, _adverbs(("frequency", "late"), tense))
    words = (frequency, maybe(0.2, Pick(slots.manners if slots.final else ())))
    nothing = Pick([None])
    if slots.question:
        return Combine(Adjuncts, *words, final_place, final_time, nothing, Pick([slots.question]))
    plain = Combine(Adjuncts, *words, final_place, final_time, nothing, nothing)
    if not slots.opening:
        return plain
    return OneOf(
        (70.0, plain),
        (16.0, Combine(_with_front("time"), *words, final_place, times, nothing, nothing)),
        (6.0, Combine(_with_front("place"), *words, places, nothing, nothing, nothing)),
        (8.0, Combine(_with_front("remark"), *words, final_place, final_time, remarks, nothing)),
    )


def _with_front(front: Front) -> Callable[..., Adjuncts]:
    return lambda *parts: Adjuncts(*parts)._replace(front=front)


def _adverbs(kinds: tuple[str, ...], tense: str) -> Choice[Adverb]:
    return Pick([adverb for adverb in ADVERBS if adverb.kind in kinds and tense in adverb.use])
