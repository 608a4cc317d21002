"""Rules for clauses: the verb, its form, its subject and its objects."""

from functools import cache
from typing import NamedTuple

from transduce.embedded.grammar.adverbials import WHEN, WHERE, WHITHER, AdverbialSlots, direction, place
from transduce.embedded.grammar.choices import Choice, Combine, OneOf, Pick, evenly
from transduce.embedded.grammar.held_out_pairs import Pairs
from transduce.embedded.grammar.nominals import (
    PEOPLE,
    Nominal,
    ObjectLimits,
    interrogative,
    noun_phrase,
    object_phrase,
    person_name,
    pronoun,
    subject,
)
from transduce.embedded.grammar.predicates import Predicate, PredicateOptions, predicates
from transduce.embedded.lexicon import ADJECTIVES, VERBS
from transduce.embedded.lexicon_entries import Adjective, Noun, Verb
from transduce.embedded.syntax import (
    AdjectivePhrase,
    Clause,
    Complement,
    Expletive,
    Gap,
    InterrogativeAdverb,
    InterrogativePronoun,
    Phrase,
    SubordinateClause,
)

SUBJECT = -1  # the number of the subject among the slots
NEGATED = ((False, 86.0), (True, 14.0))
PASSIVE = 0.2  # weight of a passive relative to its active
CONJUNCTIONS_OF_COMPLEMENTS = {"that": ("that", "dass"), "whether": ("whether", "ob")}
VERB_WEIGHTS = {"be": 14.0, "become": 3.0, "rain": 0.6, "snow": 0.6}  # 1 for any other


class Setting(NamedTuple):
    """The position of a clause in its sentence, and what the position requires."""

    time_frame: str = "any"  # present, past or any
    temporal: bool = False  # under "when" and the like: neither future nor negated
    main: bool = False
    light: bool = False  # ends in nothing that the next clause could seem to belong to
    gap: int | None = None  # the slot without a phrase, as in a relative clause
    interrogative_gap: bool = False  # the question asks for the gap
    interrogative_adverb: InterrogativeAdverb | None = None
    question: bool = False
    infinitive: bool = False


def predicate_options(
    verb: Verb, setting: Setting, negated: bool, passive: bool, final: bool, subjects: tuple[Noun, ...] | None = None
) -> PredicateOptions:
    """Returns what the predicate of a clause may be; `final` allows adverbials behind the objects.

    `subjects` are the possible subjects where they are not all of the verb's.
    """
    subjects = verb.subjects if subjects is None else subjects
    adverb = setting.interrogative_adverb
    controlled = subjects and not verb.traits & {"uncontrolled", "lasting"}
    volitional = not passive and all(_has_volition(noun) for noun in subjects)
    adverbials = AdverbialSlots(
        frequency=not negated and adverb is None,
        manners=() if negated else verb.manners,  # "not" before an adverb of manner is ambiguous
        place="place" in verb.traits and adverb not in (WHERE, WHITHER),
        time="lasting" not in verb.traits and adverb != WHEN,
        final=final,
        opening=setting.main and not setting.question and setting.gap is None,
        question=adverb,
    )
    modals = "any" if volitional else "without_volition"
    return PredicateOptions(
        time_frame="infinitive" if setting.infinitive else setting.time_frame,
        negated=negated,
        passive=passive,
        progressive="progressive" in verb.traits and not passive,
        future=not setting.temporal,
        distinct_past=passive or verb.past != verb.english,
        modals="none" if not controlled or (negated and setting.question) else modals,
        adverbials=adverbials,
    )


def _has_volition(noun: Noun) -> bool:
    """Whether the noun can want something and get permission."""
    return bool(noun.classes & {"person", "animal"})


# One verb ------------------------------------------------------------------------------------------------


@cache
def clause(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> Choice[Clause]:
    """Returns the clauses with one verb in one setting."""
    if verb.complement == "adjective":
        return evenly(*(_copular(pairs, verb, setting, adjective) for adjective in ADJECTIVES))
    options: list[tuple[float, Choice[Clause]]] = []
    for negated, weight in _polarities(setting):
        options.append((weight, active(pairs, verb, setting, depth, negated)))
        if setting.gap is None:
            options.append((weight * PASSIVE, passive(pairs, verb, setting, depth, negated)))
    return OneOf(*options)


def _polarities(setting: Setting) -> tuple[tuple[bool, float], ...]:
    """Returns the polarities with their weights; clauses of time, and questions for time or place are affirmative."""
    affirmative = setting.temporal or setting.interrogative_adverb in (WHEN, WHERE, WHITHER)
    return NEGATED[:1] if affirmative else NEGATED


def active(pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool) -> Choice[Clause]:
    """Returns the active clauses; a clause ends in its last object, which may be heavy, or in adverbials."""

    def build(predicate: Predicate, subject: Phrase, objects: tuple[Phrase, ...], rest: Complement | None) -> Clause:
        return Clause(verb, predicate.form, subject, objects, predicate.adjuncts, rest)

    rest = complement(pairs, verb, setting, depth)
    options: list[tuple[float, Choice[Clause]]] = []
    for final, share in _endings(verb, setting, depth):
        forms = predicates(pairs, predicate_options(verb, setting, negated, False, final))
        for weight, limits, subjects in _subjects(pairs, verb, setting, depth, negated):
            phrases = objects(pairs, verb, setting, 0 if final else depth, negated, limits)
            options.append((weight * share, Combine(build, forms, subjects, phrases, rest)))
    return OneOf(*options)


def _endings(verb: Verb, setting: Setting, depth: int) -> list[tuple[bool, float]]:
    """Returns whether adverbials may end a clause, with weights: never behind another clause or a heavy object."""
    if verb.complement in ("that", "whether", "to") or setting.infinitive:
        return [(False, 1.0)]
    heavy = bool(verb.slots) and depth > 0 and not setting.light and not _ends_in_recipient(verb)
    return [(False, 0.4), (True, 0.6)] if heavy else [(True, 1.0)]


def _subjects(
    pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool
) -> list[tuple[float, ObjectLimits, Choice[Phrase]]]:
    """Returns subjects with their weights and the objects that they allow."""
    third_person = ObjectLimits(third_person_only=True, names=True)
    if not verb.subjects:
        return [(1.0, third_person, Combine(Expletive))]
    if setting.infinitive or setting.gap == SUBJECT:
        who = Combine(InterrogativePronoun, Pick([True]))
        return [(1.0, third_person, who if setting.interrogative_gap else Combine(Gap))]
    nominal = Nominal("negated" if negated else "subject", depth, heavy=True)
    nouns = subject(pairs, verb.subjects, nominal)
    options: list[tuple[float, ObjectLimits, Choice[Phrase]]] = [
        (60.0, ObjectLimits(third_person_only=False, names=True), nouns)
    ]
    if set(PEOPLE) & set(verb.subjects):
        options.append((28.0, third_person, pronoun(third_person_only=False)))
        options.append((12.0, ObjectLimits(third_person_only=False, names=False), person_name()))
    return options


def _ends_in_recipient(verb: Verb) -> bool:
    """Whether English puts the recipient, with "to", behind the object that is last in German."""
    return len(verb.slots) > 1 and bool(verb.slots[0].english)


@cache
def objects(
    pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool, limits: ObjectLimits
) -> Choice[tuple[Phrase, ...]]:
    """Returns the objects of a verb: all but the last are definite; one that is last in both languages may be heavy."""
    parts: list[Choice[Phrase]] = []
    for number, slot in enumerate(verb.slots):
        nouns = tuple(noun for noun in slot.nouns if pairs.allow(verb, noun))
        if number == setting.gap:
            parts.append(interrogative(pairs, slot, nouns) if setting.interrogative_gap else Combine(Gap))
        elif number < len(verb.slots) - 1:
            parts.append(object_phrase(pairs, slot, nouns, Nominal("fixed"), limits))
        else:
            role = "oblique" if slot.german else "negated" if negated else "oblique" if slot.english else "object"
            heavy = not setting.light and not _ends_in_recipient(verb)
            nominal = Nominal(role, depth if heavy else 0, heavy)
            parts.append(object_phrase(pairs, slot, nouns, nominal, limits))
    return Combine(lambda *phrases: phrases, *parts)


@cache
def complement(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> Choice[Complement | None]:
    """Returns what a verb needs besides objects: a place, a direction, an infinitive or a clause."""
    kind = verb.complement
    if not kind or setting.interrogative_adverb in (WHERE, WHITHER):
        return Pick([None])
    if kind == "place":
        return place(pairs)
    if kind == "direction":
        return direction(pairs)
    if depth == 0 or setting.light:
        return Pick([])
    if kind == "to":
        return any_clause(pairs, Setting(infinitive=True), depth - 1)
    below = any_clause(pairs, Setting(time_frame=setting.time_frame), depth - 1)
    return Combine(lambda clause: SubordinateClause(*CONJUNCTIONS_OF_COMPLEMENTS[kind], clause), below)


def passive(pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool) -> Choice[Clause]:
    """Returns the passive clauses, with and without an agent; a gap of the setting is taken for the subject."""

    def build(predicate: Predicate, subject: Phrase, agent: Phrase | None) -> Clause:
        return Clause(verb, predicate.form, subject, (), predicate.adjuncts, None, agent)

    if "passive" not in verb.traits or len(verb.slots) > 1:
        return Pick([])
    nouns = tuple(noun for noun in verb.slots[0].nouns if pairs.allow(verb, noun))
    nominal = Nominal("negated" if negated else "subject", depth, heavy=True)
    subjects: Choice[Phrase] = noun_phrase(pairs, nouns, nominal) if setting.gap is None else Combine(Gap)
    people = noun_phrase(pairs, tuple(noun for noun in verb.subjects if noun in PEOPLE), Nominal("oblique"))
    agent: Choice[Phrase | None] = OneOf((60.0, Pick([None])), (40.0, people))
    forms = predicates(pairs, predicate_options(verb, setting, negated, True, final=True))
    return Combine(build, forms, subjects, agent)


@cache
def _copular(pairs: Pairs, verb: Verb, setting: Setting, adjective: Adjective) -> Choice[Clause]:
    """Returns the clauses of a subject, a copula and one adjective."""

    def build(predicate: Predicate, subject: Phrase, described: AdjectivePhrase) -> Clause:
        return Clause(verb, predicate.form, subject, (), predicate.adjuncts, described)

    nouns = tuple(noun for noun in adjective.nouns if noun in verb.subjects and pairs.allow(adjective, noun))
    possible = "changing" in adjective.traits or "uncontrolled" not in verb.traits
    if not nouns or not possible or setting.infinitive or setting.gap is not None:
        return Pick([])
    very = Pick([False]) if "absolute" in adjective.traits else Pick([False, True], [3.0, 1.0])
    adjectives = Combine(AdjectivePhrase, Pick([adjective]), very)
    options: list[tuple[float, Choice[Clause]]] = []
    for volitional in (True, False):
        subjects = tuple(noun for noun in nouns if _has_volition(noun) == volitional)
        for negated, weight in _polarities(setting) if subjects else ():
            nominal = Nominal("negated" if negated else "subject", plain=True)
            phrases: list[tuple[float, Choice[Phrase]]] = [(70.0, noun_phrase(pairs, subjects, nominal))]
            if set(PEOPLE) & set(subjects):
                phrases.append((30.0, pronoun(third_person_only=False)))
            forms = predicates(pairs, predicate_options(verb, setting, negated, False, False, subjects))
            options.append((weight * len(subjects), Combine(build, forms, OneOf(*phrases), adjectives)))
    return OneOf(*options)


# Any verb ------------------------------------------------------------------------------------------------


@cache
def any_clause(pairs: Pairs, setting: Setting, depth: int) -> Choice[Clause]:
    """Returns the clauses with any verb; an infinitive has a person as its subject and no reflexive verb.

    The reflexive pronoun of an infinitive would have to agree with the subject of the clause above.
    """
    verbs = VERBS
    if setting.infinitive:
        simple = ("", "direction", "place")
        people = (verb for verb in VERBS if set(PEOPLE) & set(verb.subjects) and not verb.reflexive)
        verbs = tuple(verb for verb in people if verb.complement in simple)
    return OneOf(*((VERB_WEIGHTS.get(verb.english, 1.0), clause(pairs, verb, setting, depth)) for verb in verbs))


@cache
def relative(pairs: Pairs, noun: Noun, depth: int) -> Choice[Clause]:
    """Returns the relative clauses of a noun, as their subject, object, or subject of a passive."""
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
