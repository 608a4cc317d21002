"""Rules of the grammar for clauses and sentences: who does what, in which tense, with which adverbials."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar

from transduce.embedded.choices import Choice, Each, OneOf, Pick, evenly
from transduce.embedded.lexicon import (
    ADJECTIVES,
    ADVERBS,
    CONJUNCTIONS,
    MODALS,
    VERBS,
    Adjective,
    Adverb,
    Noun,
    Slot,
    Verb,
)
from transduce.embedded.nominals import (
    PEOPLE,
    Nominal,
    direction,
    filler,
    noun_phrase,
    place,
    pronoun,
    query,
    subject,
    time,
)
from transduce.embedded.pairs import Pairs
from transduce.embedded.syntax import (
    Adjuncts,
    Ask,
    Clause,
    Form,
    Front,
    Gap,
    Phrase,
    Quality,
    Query,
    Sentence,
    Subordinate,
    Weather,
)

T = TypeVar("T")

SUBJECT = -1  # the number of the subject among the slots
DEPTH = 2  # how deep clauses nest in a sentence

WHERE, WHITHER = Ask("where", "wo"), Ask("where", "wohin")
WHEN, WHY = Ask("when", "wann"), Ask("why", "warum")


class Setting(NamedTuple):
    """Where a clause stands: what is missing from it or asked for, its time, and how much it may carry."""

    family: str = "any"  # present, past or any
    main: bool = False
    light: bool = False  # nothing may follow that the next clause could seem to belong to
    gap: int | None = None
    asked: bool = False  # the gap is asked for, rather than understood
    ask: Ask | None = None
    question: bool = False
    infinitive: bool = False


# Forms ---------------------------------------------------------------------------------------------------


@cache
def forms(verb: Verb, setting: Setting, negated: bool, passive: bool) -> list[tuple[float, Form]]:
    """The shapes a predicate may take, weighed."""
    if setting.infinitive:
        return [] if negated or passive else [(1.0, Form("infinitive"))]
    weighed: list[tuple[float, Form]] = []
    family = setting.family

    def add(weight: float, form: Form) -> None:
        weighed.append((weight, form._replace(negated=negated, passive=passive)))

    moving = "progressive" in verb.traits and not passive
    told_apart = passive or verb.past != verb.english  # "they read" could be either tense
    if family != "past":
        add(4.0, Form("present"))
        add(1.5 if moving else 0.0, Form("present", progressive=True))
        add(2.5, Form("perfect"))
        add(1.2, Form("future"))
    if family != "present":
        add(6.0 if told_apart else 0.0, Form("past"))
        add(1.2 if moving else 0.0, Form("past", progressive=True))
        add(0.6, Form("pluperfect"))
    polarity = "negative" if negated else "positive"
    if verb.subjects and verb.english not in ("belong", "begin", "end", "become") and not setting.question:
        for modal in MODALS:
            willing = modal.english != "want to" or not passive
            if willing and polarity in modal.polarity and family in ("any", modal.tense):
                add(0.4, Form(modal.tense, modal=modal))  # type: ignore[arg-type]
    return [(weight, form) for weight, form in weighed if weight]


def time_of(form: Form) -> str:
    """The tense by which adverbials of time are chosen."""
    if form.modal and form.tense == "present":
        return "future"
    return {"pluperfect": "past"}.get(form.tense, form.tense)


# Adverbials ----------------------------------------------------------------------------------------------


class Scope(NamedTuple):
    """Which adverbials a clause has room for."""

    tense: str
    frequent: bool  # how often
    manners: tuple[Adverb, ...]
    placed: bool  # where
    ended: bool  # whether some may follow the objects
    opening: bool  # whether one may open the clause
    ask: Ask | None


@cache
def predicate(
    pairs: Pairs, verb: Verb, setting: Setting, negated: bool, passive: bool, ended: bool
) -> Choice[tuple[Form, Adjuncts]]:
    """A form with adverbials that go with it; `ended` where some may follow the objects."""
    opening = setting.main and not setting.question and setting.gap is None
    placed = "place" in verb.traits and setting.ask not in (WHERE, WHITHER)
    options: list[tuple[float, Choice[tuple[Form, Adjuncts]]]] = []
    for weight, form in forms(verb, setting, negated, passive):
        frequent = not (negated or form.progressive or form.modal or setting.ask)
        scope = Scope(time_of(form), frequent, verb.manners, placed, ended, opening, setting.ask)
        options.append((weight, Each(lambda *parts: parts, Pick([form]), adjuncts(pairs, scope))))
    return OneOf(*options)


def maybe(share: float, rule: Choice[T]) -> Choice[T | None]:
    """Nothing, or a share of the time what the rule gives."""
    return OneOf((1.0 - share, Pick([None])), (share, rule))


@cache
def adjuncts(pairs: Pairs, scope: Scope) -> Choice[Adjuncts]:
    """The adverbials of a clause."""
    if scope.tense == "infinitive":
        return Pick([Adjuncts()])
    tense, ended = scope.tense, scope.ended
    frequencies = [word for word in ADVERBS if word.kind == "frequency" and tense in word.use]
    remarks = Pick([word for word in ADVERBS if word.kind == "sentence" and tense in word.use])
    where = place(pairs) if scope.placed else Pick([])
    when = time(pairs, tense) if scope.ask != WHEN else Pick([])
    words = (
        maybe(0.12, Pick(frequencies if scope.frequent else [])),
        maybe(0.2, Pick(scope.manners if ended else ())),
    )
    here, now = maybe(0.25, where if ended else Pick([])), maybe(0.25, when if ended else Pick([]))
    nothing = Pick([None])

    def opened(front: Front | None) -> Callable[..., Adjuncts]:
        return lambda *parts: Adjuncts(*parts, front)

    if scope.ask:
        return Each(opened("ask"), *words, here, now, nothing, Pick([scope.ask]))
    plain = Each(opened(None), *words, here, now, nothing, nothing)
    if not scope.opening:
        return plain
    return OneOf(
        (70.0, plain),
        (16.0, Each(opened("time"), *words, here, when, nothing, nothing)),
        (6.0, Each(opened("place"), *words, where, nothing, nothing, nothing)),
        (8.0, Each(opened("remark"), *words, here, now, remarks, nothing)),
    )


# Clauses -------------------------------------------------------------------------------------------------


@cache
def clause(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> Choice[Clause]:
    """Everything that may be said with one verb in one setting."""
    if verb.complement == "adjective":
        return copular(pairs, verb, setting, depth)
    options: list[tuple[float, Choice[Clause]]] = []
    for negated, weight in ((False, 86.0), (True, 14.0)):
        options.append((weight, active(pairs, verb, setting, depth, negated)))
        if "passive" in verb.traits and not setting.infinitive:
            options.append((weight * 0.2, passive(pairs, verb, setting, depth, negated)))
    return OneOf(*options)


@cache
def active(pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool) -> Choice[Clause]:
    """A clause in the active voice, ending in its last object or in adverbials."""
    options: list[tuple[float, Choice[Clause]]] = []
    closed = verb.complement in ("that", "whether", "to") or setting.infinitive
    complement = _complement(pairs, verb, setting, depth)
    for persons, weight, subjects in _subjects(pairs, verb, setting, depth):
        for ended in (False,) if closed else (False, True):
            if ended and verb.complement == "" and not verb.slots and not verb.subjects:
                continue
            share = weight * (1.0 if closed else 0.6 if ended else 0.4)
            parts = (
                predicate(pairs, verb, setting, negated, False, ended),
                subjects,
                objects(pairs, verb, setting, depth if not ended else 0, negated, persons),
                complement,
            )

            def built(
                head: tuple[Form, Adjuncts], subject: Phrase, objects: tuple[Phrase, ...], rest: object
            ) -> Clause:
                return Clause(verb, head[0], subject, objects, head[1], rest)  # type: ignore[arg-type]

            options.append((share, Each(built, *parts)))
    return OneOf(*options)


def _subjects(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> list[tuple[str, float, Choice[Phrase]]]:
    """(pronouns that may be objects beside it, weight, subject)."""
    if not verb.subjects:
        return [("third", 1.0, Each(Weather))]
    if setting.infinitive:
        return [("third", 1.0, Each(Gap))]
    if setting.gap == SUBJECT:
        return [("all", 1.0, Each(lambda: Query(True)) if setting.asked else Each(Gap))]
    found: list[tuple[str, float, Choice[Phrase]]] = [("all", 70.0, subject(pairs, verb.subjects, depth))]
    if set(PEOPLE) & set(verb.subjects):
        found.append(("third", 30.0, pronoun("all")))
    return found


@cache
def objects(
    pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool, persons: str
) -> Choice[tuple[Phrase, ...]]:
    """The objects of a verb; only the last may be heavy."""
    parts: list[Choice[Phrase]] = []
    for number, slot in enumerate(verb.slots):
        nouns = tuple(noun for noun in slot.nouns if pairs.allow(verb, noun))
        last = number == len(verb.slots) - 1 and not setting.light
        if number == setting.gap:
            parts.append(asked(pairs, slot, nouns) if setting.asked else Each(Gap))
        elif slot.case == "dative" and not slot.german and not slot.english and len(verb.slots) > 1:
            parts.append(filler(pairs, slot, nouns, Nominal("fixed", 0), persons))
        else:
            role = "oblique" if slot.german or slot.english else "negated" if negated else "object"
            parts.append(filler(pairs, slot, nouns, Nominal(role, depth if last else 0, heavy=last), persons))
    return Each(lambda *phrases: phrases, *parts)


@cache
def asked(pairs: Pairs, slot: Slot, nouns: tuple[Noun, ...]) -> Choice[Phrase]:
    """What a question asks for in a slot: who, what, or which of the nouns."""
    which = noun_phrase(pairs, nouns, Nominal("question"))
    return OneOf((3.0, query(slot)), (2.0, which))


@cache
def passive(pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool) -> Choice[Clause]:
    """A clause in the passive voice, with the doer or without."""
    number = next(n for n, slot in enumerate(verb.slots) if slot.case == "accusative" and not slot.german)
    if setting.gap not in (None, SUBJECT) or len(verb.slots) > 1 or (setting.gap == SUBJECT and setting.asked):
        return Pick([])
    nouns = tuple(noun for noun in verb.slots[number].nouns if pairs.allow(verb, noun))
    if setting.gap == SUBJECT:
        subjects: Choice[Phrase] = Each(Gap)
    else:
        subjects = noun_phrase(pairs, nouns, Nominal("subject", depth, heavy=True))
    doer = noun_phrase(pairs, tuple(n for n in verb.subjects if "person" in n.classes), Nominal("oblique"))
    agent: Choice[Phrase | None] = OneOf((60.0, Pick([None])), (40.0, doer))

    def built(head: tuple[Form, Adjuncts], subject: Phrase, agent: Phrase | None) -> Clause:
        return Clause(verb, head[0], subject, (), head[1], None, agent)

    return Each(built, predicate(pairs, verb, setting, negated, True, True), subjects, agent)


@cache
def copular(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> Choice[Clause]:
    """A subject and an adjective that describes it."""
    return evenly(*(_being(pairs, verb, setting, depth, adjective) for adjective in ADJECTIVES))


@cache
def _being(pairs: Pairs, verb: Verb, setting: Setting, depth: int, adjective: Adjective) -> Choice[Clause]:
    nouns = tuple(noun for noun in adjective.nouns if noun in verb.subjects and pairs.allow(adjective, noun))
    human = "person" in adjective.nouns[0].classes
    if not nouns or setting.infinitive or setting.gap is not None:
        return Pick([])
    subjects: Choice[Phrase] = OneOf(
        (70.0, noun_phrase(pairs, nouns, Nominal("subject", 0, plain=True))),
        (30.0, pronoun("all") if human else Pick([])),
    )
    qualities = Pick([Quality(adjective, False), Quality(adjective, True)], [3.0, 1.0])

    def built(head: tuple[Form, Adjuncts], subject: Phrase, quality: Quality) -> Clause:
        return Clause(verb, head[0], subject, (), head[1], quality)

    heads = OneOf(
        *(
            (weight, predicate(pairs, verb, setting, negated, False, False))
            for negated, weight in ((False, 85.0), (True, 15.0))
        )
    )
    return Each(built, heads, subjects, qualities)


def _complement(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> Choice[object]:
    """What a verb needs besides objects."""
    if setting.ask in (WHERE, WHITHER):
        return Pick([None])
    match verb.complement:
        case "place":
            return place(pairs)
        case "direction":
            return direction(pairs)
        case "that" | "whether" if depth > 0 and not setting.light:
            words = ("that", "dass") if verb.complement == "that" else ("whether", "ob")
            below = said(pairs, Setting(family=setting.family), depth - 1)
            return Each(lambda clause: Subordinate(*words, clause), below)
        case "to" if depth > 0 and not setting.light:
            return said(pairs, Setting(infinitive=True), depth - 1)
        case "":
            return Pick([None])
    return Pick([])


@cache
def said(pairs: Pairs, setting: Setting, depth: int) -> Choice[Clause]:
    """A clause with any verb."""
    verbs = VERBS
    if setting.infinitive:
        verbs = tuple(
            verb for verb in VERBS if set(PEOPLE) & set(verb.subjects) and verb.complement in ("", "direction", "place")
        )
    return OneOf(*((weight_of(verb), clause(pairs, verb, setting, depth)) for verb in verbs))


def weight_of(verb: Verb) -> float:
    """How often a verb is used: evenly, but for the copula and the weather."""
    return {"be": 14.0, "become": 3.0, "rain": 0.6, "snow": 0.6}.get(verb.english, 1.0 if verb.slots else 0.8)


@cache
def relative(pairs: Pairs, noun: Noun, depth: int) -> Choice[Clause]:
    """A clause that describes a noun: it is the subject there, or an object."""
    options: list[tuple[float, Choice[Clause]]] = []
    for verb in VERBS:
        if noun in verb.subjects and verb.complement in ("", "place", "direction"):
            options.append((1.0, clause(pairs, verb, Setting(gap=SUBJECT), depth)))
        for number, slot in enumerate(verb.slots):
            if noun in slot.nouns and pairs.allow(verb, noun):
                options.append((1.0, clause(pairs, verb, Setting(gap=number), depth)))
    return OneOf(*options)


# Sentences -----------------------------------------------------------------------------------------------


@cache
def sentence(pairs: Pairs, depth: int = DEPTH) -> Choice[Sentence]:
    """Any sentence of the language."""
    return OneOf(
        (52.0, statement(pairs, depth)),
        (14.0, complex_statement(pairs, depth)),
        (8.0, joint_statement(pairs, depth)),
        (8.0, Each(lambda clause: Sentence("question", clause), said(pairs, Setting(main=True, question=True), 0))),
        (12.0, asking(pairs)),
    )


@cache
def statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """One main clause."""
    return Each(lambda clause: Sentence("statement", clause), said(pairs, Setting(main=True), depth))


@cache
def complex_statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """A main clause with a subordinate one, before it or after it, in the same time."""
    options: list[tuple[float, Choice[Sentence]]] = []
    for family in ("present", "past"):
        conjunctions = Pick([word for word in CONJUNCTIONS if family in word.tenses])
        below = said(pairs, Setting(family=family), depth - 2)
        for before, weight in ((True, 1.0), (False, 1.5)):
            main = said(pairs, Setting(family=family, main=not before), depth - 1)

            def built(main: Clause, word: object, below: Clause, before: bool = before) -> Sentence:
                return Sentence("statement", main, Subordinate(word.english, word.german, below), before)  # type: ignore[attr-defined]

            options.append((weight, Each(built, main, conjunctions, below)))
    return OneOf(*options)


@cache
def joint_statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """Two main clauses side by side; the first ends in nothing that the second could continue."""
    words = Pick([("and", "und"), ("but", "aber"), ("or", "oder")], [4.0, 3.0, 0.5])
    first = said(pairs, Setting(main=True, light=True), 0)
    second = said(pairs, Setting(main=True), depth - 2)

    def built(first: Clause, words: tuple[str, str], second: Clause) -> Sentence:
        return Sentence("statement", first, None, False, words, second)

    return Each(built, first, words, second)


@cache
def asking(pairs: Pairs) -> Choice[Sentence]:
    """A question for the subject, an object, a place, a time or a reason."""
    found: list[tuple[float, Choice[Clause]]] = []
    for verb in VERBS:
        if verb.complement not in ("", "place", "direction") or not verb.subjects:
            continue
        for number, _ in enumerate(verb.slots):
            found.append((2.0, clause(pairs, verb, Setting(main=True, question=True, gap=number, asked=True), 0)))
        if set(PEOPLE) & set(verb.subjects):
            found.append((0.7, clause(pairs, verb, Setting(main=True, question=True, gap=SUBJECT, asked=True), 0)))
        for ask in _asks(verb):
            found.append((0.7, clause(pairs, verb, Setting(main=True, question=True, ask=ask), 0)))
    return Each(lambda clause: Sentence("question", clause), OneOf(*found))


def _asks(verb: Verb) -> list[Ask]:
    """The adverbs one may ask with."""
    where = [WHERE] if verb.complement == "place" or "place" in verb.traits else []
    return [WHEN, WHY, *([WHITHER] if verb.complement == "direction" else where)]
