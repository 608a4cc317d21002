"""Rules for clauses: which verb, in which form, with which subject and objects."""

from functools import cache
from typing import NamedTuple

from transduce.embedded.grammar.adverbials import WHEN, WHERE, WHITHER, Scope, direction, place
from transduce.embedded.grammar.choices import Choice, Each, OneOf, Pick, evenly
from transduce.embedded.grammar.nominals import (
    PEOPLE,
    Company,
    Nominal,
    asked,
    filler,
    noun_phrase,
    person_name,
    pronoun,
    subject,
)
from transduce.embedded.grammar.pairs import Pairs
from transduce.embedded.grammar.predicates import Head, Latitude, heads
from transduce.embedded.lexicon import ADJECTIVES, VERBS
from transduce.embedded.lexicon_entries import Adjective, Noun, Verb
from transduce.embedded.syntax import (
    Ask,
    Clause,
    Complement,
    Gap,
    Phrase,
    Quality,
    Query,
    Subordinate,
    Weather,
)

SUBJECT = -1  # the number of the subject among the slots
NEGATED = ((False, 86.0), (True, 14.0))
PASSIVE = 0.2  # how often to each active
CLAUSAL = {"that": ("that", "dass"), "whether": ("whether", "ob")}


class Setting(NamedTuple):
    """Where a clause stands: what is missing from it or asked for, its time, and how much it may carry."""

    family: str = "any"  # present, past or any
    temporal: bool = False  # under "when" and the like: neither future nor negated
    main: bool = False
    light: bool = False  # nothing may end it that the next clause could seem to belong to
    gap: int | None = None  # the slot that is missing, as in a relative clause
    asked: bool = False  # the gap is asked for
    ask: Ask | None = None
    question: bool = False
    infinitive: bool = False


def latitude(
    verb: Verb, setting: Setting, negated: bool, passive: bool, ended: bool, subjects: tuple[Noun, ...] | None = None
) -> Latitude:
    """What the predicate of a clause may be; `ended` where adverbials may follow its objects.

    `subjects` are those that it may have, where these are not all of the verb's.
    """
    subjects = verb.subjects if subjects is None else subjects
    controlled = subjects and not verb.traits & {"uncontrolled", "lasting"}
    willing = not passive and all(_wills(noun) for noun in subjects)
    scope = Scope(
        frequent=not negated and setting.ask is None,
        manners=() if negated else verb.manners,  # what would "not" deny?
        placed="place" in verb.traits and setting.ask not in (WHERE, WHITHER),
        timed="lasting" not in verb.traits and setting.ask != WHEN,
        ended=ended,
        opening=setting.main and not setting.question and setting.gap is None,
        ask=setting.ask,
    )
    return Latitude(
        family="infinitive" if setting.infinitive else setting.family,
        negated=negated,
        passive=passive,
        progressive="progressive" in verb.traits and not passive,
        future=not setting.temporal,
        told_apart=passive or verb.past != verb.english,
        modals="none" if not controlled or (negated and setting.question) else "any" if willing else "unwilling",
        scope=scope,
    )


def _wills(noun: Noun) -> bool:
    """Whether it can want and be allowed something."""
    return bool(noun.classes & {"person", "animal"})


# The clause ----------------------------------------------------------------------------------------------


@cache
def clause(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> Choice[Clause]:
    """Everything that may be said with one verb in one setting."""
    if verb.complement == "adjective":
        return evenly(*(_described(pairs, verb, setting, adjective) for adjective in ADJECTIVES))
    options: list[tuple[float, Choice[Clause]]] = []
    for negated, weight in _polarities(setting):
        options.append((weight, active(pairs, verb, setting, depth, negated)))
        if setting.gap is None:
            options.append((weight * PASSIVE, passive(pairs, verb, setting, depth, negated)))
    return OneOf(*options)


def _polarities(setting: Setting) -> tuple[tuple[bool, float], ...]:
    """Affirmed or negated, weighed: nobody asks when or where something does not happen."""
    affirmed = setting.temporal or setting.ask in (WHEN, WHERE, WHITHER)
    return NEGATED[:1] if affirmed else NEGATED


def active(pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool) -> Choice[Clause]:
    """A clause in the active voice. It ends in its last object, which may be heavy, or in adverbials."""

    def built(head: Head, subject: Phrase, objects: tuple[Phrase, ...], rest: Complement | None) -> Clause:
        return Clause(verb, head.form, subject, objects, head.adjuncts, rest)

    rest = complement(pairs, verb, setting, depth)
    options: list[tuple[float, Choice[Clause]]] = []
    for ended, share in _endings(verb, setting, depth):
        predicates = heads(pairs, latitude(verb, setting, negated, False, ended))
        for weight, company, subjects in _subjects(pairs, verb, setting, depth, negated):
            things = objects(pairs, verb, setting, 0 if ended else depth, negated, company)
            options.append((weight * share, Each(built, predicates, subjects, things, rest)))
    return OneOf(*options)


def _endings(verb: Verb, setting: Setting, depth: int) -> list[tuple[bool, float]]:
    """Whether adverbials may end a clause, weighed: not behind another clause, nor behind a heavy object."""
    if verb.complement in ("that", "whether", "to") or setting.infinitive:
        return [(False, 1.0)]
    heavy = bool(verb.slots) and depth > 0 and not setting.light and not _ends_in_receiver(verb)
    return [(False, 0.4), (True, 0.6)] if heavy else [(True, 1.0)]


def _subjects(
    pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool
) -> list[tuple[float, Company, Choice[Phrase]]]:
    """Subjects, weighed, each with the objects it allows beside it."""
    alone = Company(third=True, names=True)
    if not verb.subjects:
        return [(1.0, alone, Each(Weather))]
    if setting.infinitive or setting.gap == SUBJECT:
        return [(1.0, alone, Each(Query, Pick([True])) if setting.asked else Each(Gap))]
    nominal = Nominal("negated" if negated else "subject", depth, heavy=True)
    around = subject(pairs, verb.subjects, nominal)
    found: list[tuple[float, Company, Choice[Phrase]]] = [(60.0, Company(third=False, names=True), around)]
    if set(PEOPLE) & set(verb.subjects):
        found.append((28.0, alone, pronoun(third=False)))
        found.append((12.0, Company(third=False, names=False), person_name()))
    return found


def _ends_in_receiver(verb: Verb) -> bool:
    """Whether English puts "to" somebody behind what German has last."""
    return len(verb.slots) > 1 and bool(verb.slots[0].english)


@cache
def objects(
    pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool, company: Company
) -> Choice[tuple[Phrase, ...]]:
    """The objects of a verb; only one that is last in both languages may be heavy; a receiver before it is definite."""
    parts: list[Choice[Phrase]] = []
    for number, slot in enumerate(verb.slots):
        nouns = tuple(noun for noun in slot.nouns if pairs.allow(verb, noun))
        last = number == len(verb.slots) - 1 and not setting.light and not _ends_in_receiver(verb)
        role = "oblique" if slot.german else "negated" if negated else "oblique" if slot.english else "object"
        nominal = Nominal(role, depth if last else 0, heavy=last)
        if number == setting.gap:
            parts.append(asked(pairs, slot, nouns) if setting.asked else Each(Gap))
        elif number < len(verb.slots) - 1:
            parts.append(filler(pairs, slot, nouns, Nominal("fixed"), company))
        else:
            parts.append(filler(pairs, slot, nouns, nominal, company))
    return Each(lambda *phrases: phrases, *parts)


@cache
def complement(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> Choice[Complement | None]:
    """What a verb needs besides objects."""
    wanted = verb.complement
    if not wanted or setting.ask in (WHERE, WHITHER):
        return Pick([None])
    if wanted == "place":
        return place(pairs)
    if wanted == "direction":
        return direction(pairs)
    if depth == 0 or setting.light:
        return Pick([])
    if wanted == "to":
        return said(pairs, Setting(infinitive=True), depth - 1)
    below = said(pairs, Setting(family=setting.family), depth - 1)
    return Each(lambda clause: Subordinate(*CLAUSAL[wanted], clause), below)


def passive(pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool) -> Choice[Clause]:
    """A clause in the passive voice, with the doer or without; the caller knows that a gap may be its subject."""

    def built(head: Head, subject: Phrase, agent: Phrase | None) -> Clause:
        return Clause(verb, head.form, subject, (), head.adjuncts, None, agent)

    if "passive" not in verb.traits or len(verb.slots) > 1:
        return Pick([])
    nouns = tuple(noun for noun in verb.slots[0].nouns if pairs.allow(verb, noun))
    nominal = Nominal("negated" if negated else "subject", depth, heavy=True)
    subjects: Choice[Phrase] = noun_phrase(pairs, nouns, nominal) if setting.gap is None else Each(Gap)
    doers = noun_phrase(pairs, tuple(noun for noun in verb.subjects if noun in PEOPLE), Nominal("oblique"))
    agent: Choice[Phrase | None] = OneOf((60.0, Pick([None])), (40.0, doers))
    return Each(built, heads(pairs, latitude(verb, setting, negated, True, ended=True)), subjects, agent)


@cache
def _described(pairs: Pairs, verb: Verb, setting: Setting, adjective: Adjective) -> Choice[Clause]:
    """A subject and the adjective that describes it."""

    def built(head: Head, subject: Phrase, quality: Quality) -> Clause:
        return Clause(verb, head.form, subject, (), head.adjuncts, quality)

    nouns = tuple(noun for noun in adjective.nouns if noun in verb.subjects and pairs.allow(adjective, noun))
    possible = "changing" in adjective.traits or "uncontrolled" not in verb.traits
    if not nouns or not possible or setting.infinitive or setting.gap is not None:
        return Pick([])
    strengths = Pick([False]) if "absolute" in adjective.traits else Pick([False, True], [3.0, 1.0])
    qualities = Each(Quality, Pick([adjective]), strengths)
    options: list[tuple[float, Choice[Clause]]] = []
    for willing in (True, False):
        alike = tuple(noun for noun in nouns if _wills(noun) == willing)
        for negated, weight in _polarities(setting) if alike else ():
            nominal = Nominal("negated" if negated else "subject", plain=True)
            subjects: list[tuple[float, Choice[Phrase]]] = [(70.0, noun_phrase(pairs, alike, nominal))]
            if set(PEOPLE) & set(alike):
                subjects.append((30.0, pronoun(third=False)))
            predicates = heads(pairs, latitude(verb, setting, negated, False, False, alike))
            options.append((weight * len(alike), Each(built, predicates, OneOf(*subjects), qualities)))
    return OneOf(*options)


# Any verb ------------------------------------------------------------------------------------------------


def weight_of(verb: Verb) -> float:
    """How often a verb is used: evenly, but for the copula and the weather."""
    return {"be": 14.0, "become": 3.0, "rain": 0.6, "snow": 0.6}.get(verb.english, 1.0)


@cache
def said(pairs: Pairs, setting: Setting, depth: int) -> Choice[Clause]:
    """A clause with any verb; infinitives are of what people do, and not to themselves: whose "sich" would it be?"""
    verbs = VERBS
    if setting.infinitive:
        simple = ("", "direction", "place")
        people = (verb for verb in VERBS if set(PEOPLE) & set(verb.subjects) and not verb.reflexive)
        verbs = tuple(verb for verb in people if verb.complement in simple)
    return OneOf(*((weight_of(verb), clause(pairs, verb, setting, depth)) for verb in verbs))


@cache
def relative(pairs: Pairs, noun: Noun, depth: int) -> Choice[Clause]:
    """A clause that describes a noun: it is the subject there, or an object, or the subject of a passive."""
    options: list[tuple[float, Choice[Clause]]] = []
    subject = Setting(gap=SUBJECT)
    for verb in VERBS:
        if noun in verb.subjects and verb.complement in ("", "place", "direction"):
            options.append((1.0, clause(pairs, verb, subject, depth)))
        for number, slot in enumerate(verb.slots):
            if noun in slot.nouns and pairs.allow(verb, noun):
                if "unmoved" not in verb.traits:
                    options.append((1.0, clause(pairs, verb, Setting(gap=number), depth)))
                for negated, weight in _polarities(subject):
                    options.append((PASSIVE * weight / 100, passive(pairs, verb, subject, depth, negated)))
    return OneOf(*options)
