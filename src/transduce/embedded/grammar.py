"""The grammar of the embedded corpus.

Each rule is a function that is named after a constituent and returns the choice of all its derivations.
"""

from functools import cache
from itertools import product
from typing import NamedTuple

from transduce.embedded.choices import Choice, Combine, OneOf, Pick, evenly, maybe
from transduce.embedded.held_out_pairs import Pairs
from transduce.embedded.lexicon import (
    ADJECTIVES,
    ADVERBS,
    ATTRIBUTES,
    CONJUNCTIONS,
    DETERMINERS,
    MODALS,
    NAMES,
    NOUNS,
    NUMERALS,
    PRONOUNS,
    TIMES,
    VERBS,
    Adjective,
    Adverb,
    Case,
    Conjunction,
    Determiner,
    Noun,
    Number,
    Numeral,
    Slot,
    Verb,
    find_entry,
    select_nouns,
)
from transduce.embedded.syntax import (
    AdjectivePhrase,
    Adjuncts,
    Clause,
    ClockTime,
    Complement,
    Coordination,
    EventTime,
    Expletive,
    Gap,
    InterrogativeAdverb,
    InterrogativePronoun,
    Modifier,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    PrepositionalModifier,
    Pronoun,
    Sentence,
    SubordinateClause,
    Tense,
    TimeExpression,
    VerbForm,
)

WEIGHTS = {"the": 40.0, "a": 26.0}  # of determiners; every other determiner has weight 3
PLURAL = 0.4  # weight of a plural relative to its singular
PEOPLE = select_nouns("person")
BUILDINGS = select_nouns("building")
PARTS = frozenset(select_nouns("opening,part"))
OWNED = frozenset(
    select_nouns(
        "relation,pet,clothing,vehicle-ship,container,thing,text,image,house,garden,room,idea,furniture,device,"
        "instrument,food,drink,event,meal,tale,music,fragile,plant,work,village,school,factory,opening,part,"
        "child,teacher,doctor,lawyer,guest,customer,pupil,student,chef,gardener"
    )
)
THE = find_entry(DETERMINERS, "the")
COUNTS = [numeral for numeral in NUMERALS if "count" in numeral.use]


class Determination(NamedTuple):
    """The determiner, number and numeral of a noun."""

    determiner: Determiner | None
    number: Number
    numeral: Numeral | None = None


class Nominal(NamedTuple):
    """The restrictions on how a noun phrase may be built.

    `role` determines which determiners are allowed: `subject`, `object`, `negated` (in the scope of "not"), `oblique`
    (after a preposition), `place`, `fixed` (definite) or `question`. `depth` is the maximum depth to which clauses may
    be nested in the phrase. `heavy` allows a relative clause at its end, and `plain` forbids adjectives and modifiers.
    """

    role: str
    depth: int = 0
    heavy: bool = False
    plain: bool = False


# Before the noun -----------------------------------------------------------------------------------------


@cache
def determination(noun: Noun, role: str) -> Choice[Determination]:
    """Returns the choice of determiner, number and numeral for a noun in a role."""
    weighted: list[tuple[Determination, float]] = []
    for determiner in DETERMINERS:
        if role in determiner.roles:
            weight = WEIGHTS.get(determiner.english, 3.0)
            for number in _numbers(noun, determiner, role):
                share = PLURAL if number == "plural" and "singular" in determiner.numbers else 1.0
                weighted.append((Determination(determiner, number), weight * share))
    if not noun.plural:
        if role in ("subject", "object", "negated", "oblique") and "meal" not in noun.classes:
            weighted.append((Determination(None, "singular"), 30.0))
    elif role in ("subject", "object", "negated", "oblique"):
        weighted.append((Determination(None, "plural"), 8.0))
        if role != "negated":
            weighted += [(Determination(None, "plural", numeral), 0.8) for numeral in COUNTS]
            weighted += [(Determination(THE, "plural", numeral), 0.2) for numeral in COUNTS]
    return Pick([value for value, _ in weighted], [weight for _, weight in weighted])


def _numbers(noun: Noun, determiner: Determiner, role: str) -> list[Number]:
    """Returns the numbers in which the determiner can occur with the noun."""
    possessive = determiner.tag == "PRP$"
    if possessive and noun not in OWNED:
        return []
    if not noun.plural:
        return ["singular"] if possessive or determiner.english in ("the", "which") else []
    numbers: tuple[Number, ...] = ("singular",) if role == "place" else ("singular", "plural")
    return [number for number in numbers if number in determiner.numbers]


@cache
def adjective_phrase(pairs: Pairs, noun: Noun) -> Choice[AdjectivePhrase | None]:
    """Returns the choice of adjective phrases that can describe the noun, including None."""
    adjectives = [word for word in ADJECTIVES if noun in word.nouns and pairs.allow(word, noun)]
    # Each sample is a new object, because alignment distinguishes two equal adjectives by identity.
    plain = Combine(AdjectivePhrase, Pick(adjectives), Pick([False]))
    gradable = Pick([word for word in adjectives if "absolute" not in word.traits])
    very = Combine(AdjectivePhrase, gradable, Pick([True]))
    # A noun has few held-out adjectives: with the usual probability, `novel` would have hardly any adjectives.
    probability = 0.7 if pairs.kind == "held out" else 0.38
    return maybe(probability, OneOf((8.0, plain), (1.0, very)))


# Around the noun -----------------------------------------------------------------------------------------


@cache
def noun_phrase(pairs: Pairs, nouns: tuple[Noun, ...], nominal: Nominal) -> Choice[NounPhrase]:
    """Returns the choice of noun phrases whose head is one of `nouns`."""
    return evenly(*(phrase_around(pairs, noun, nominal) for noun in nouns))


@cache
def phrase_around(pairs: Pairs, noun: Noun, nominal: Nominal) -> Choice[NounPhrase]:
    """Returns the choice of noun phrases whose head is `noun`."""

    def build(before: Determination, adjective: AdjectivePhrase | None, modifier: Modifier | None) -> NounPhrase:
        return NounPhrase(noun, *before, adjective, modifier)

    before = determination(noun, nominal.role)
    nothing: Choice[None] = Pick([None])
    if nominal.plain:
        return Combine(build, before, nothing, nothing)
    adjective = adjective_phrase(pairs, noun)
    options = [(100.0, Combine(build, before, adjective, nothing))]
    if nominal.depth > 0:
        definite = [Determination(THE, number) for number in _numbers(noun, THE, nominal.role)]
        owned = Pick(definite, [1.0, PLURAL][: len(definite)])
        options.append((14.0, Combine(build, owned, adjective, possessor(pairs, noun))))
        options.append((7.0, Combine(build, before, adjective, prepositional_modifier(pairs, noun))))
    if nominal.heavy and nominal.depth > 0:
        options.append((16.0, Combine(build, before, adjective, relative(pairs, noun, nominal.depth - 1))))
    return OneOf(*options)


@cache
def possessor(pairs: Pairs, noun: Noun) -> Choice[Possessor]:
    """Returns the choice of owners of a noun, which may stand before or after it.

    If the noun is part of a building, the building always stands after it.
    """

    def before(owner: NounPhrase | NamePhrase) -> Possessor:
        return Possessor(owner, True)

    def behind(owner: NounPhrase) -> Possessor:
        return Possessor(owner, False)

    if noun in PARTS:
        return Combine(behind, noun_phrase(pairs, BUILDINGS, Nominal("fixed")))
    if noun not in OWNED:
        return Pick([])
    people = noun_phrase(pairs, tuple(person for person in PEOPLE if person is not noun), Nominal("fixed"))
    return OneOf((4.0, Combine(before, people)), (3.0, Combine(before, person_name())), (3.0, Combine(behind, people)))


@cache
def prepositional_modifier(pairs: Pairs, noun: Noun) -> Choice[PrepositionalModifier]:
    """Returns the choice of prepositional phrases that can modify the noun."""
    options: list[Choice[PrepositionalModifier]] = []
    for attribute in ATTRIBUTES:
        if noun in attribute.nouns:
            phrases = noun_phrase(pairs, attribute.fillers, Nominal("oblique"))
            options.append(Combine(PrepositionalModifier, Pick([attribute]), phrases))
    return evenly(*options)


# Other phrases -------------------------------------------------------------------------------------------


@cache
def person_name() -> Choice[NamePhrase]:
    """Returns the choice of first names."""
    return Combine(NamePhrase, Pick([name for name in NAMES if name.kind == "person"]))


@cache
def pronoun(third_person_only: bool) -> Choice[Pronoun]:
    """Returns the choice of personal pronouns, which can be restricted to the third person."""
    return Combine(Pronoun, Pick([entry for entry in PRONOUNS if entry.person == "third" or not third_person_only]))


@cache
def coordination(pairs: Pairs, nouns: tuple[Noun, ...]) -> Choice[Coordination]:
    """Returns the choice of pairs of different nouns that are joined by "and".

    The nouns have no modifiers, because it would be unclear to which noun a modifier belongs.
    """
    first, second = (noun_phrase(pairs, half, Nominal("fixed")) for half in (nouns[::2], nouns[1::2]))
    return Combine(Coordination, first, second)


@cache
def subject(pairs: Pairs, nouns: tuple[Noun, ...], nominal: Nominal) -> Choice[Phrase]:
    """Returns the choice of subjects: a phrase with one of the nouns, or a coordination of two people."""
    people = tuple(noun for noun in nouns if noun in PEOPLE)
    return OneOf((80.0, noun_phrase(pairs, nouns, nominal)), (5.0, coordination(pairs, people)))


class ObjectLimits(NamedTuple):
    """The objects that a subject allows, so that the subject and an object are never the same person."""

    third_person_only: bool  # no pronouns of the first and second person
    names: bool


@cache
def object_phrase(
    pairs: Pairs, slot: Slot, nouns: tuple[Noun, ...], nominal: Nominal, limits: ObjectLimits
) -> Choice[Phrase]:
    """Returns the choice of phrases that can fill an object slot.

    `nouns` are the nouns of the slot that `pairs` allows.
    """
    options: list[tuple[float, Choice[Phrase]]] = [(80.0, noun_phrase(pairs, nouns, nominal))]
    if set(PEOPLE) & set(slot.nouns):
        options.append((16.0, pronoun(limits.third_person_only)))
        if limits.names:
            options.append((12.0, person_name()))
    if slot.case == "accusative" and nominal.role == "object":
        options.append((5.0, coordination(pairs, nouns)))
    return OneOf(*options)


@cache
def interrogative(pairs: Pairs, slot: Slot, nouns: tuple[Noun, ...]) -> Choice[Phrase]:
    """Returns the choice of "who", "what", and "which" with a noun of the slot.

    "What" is left out if the slot has a preposition.
    """
    people, things = bool(set(PEOPLE) & set(slot.nouns)), bool(set(slot.nouns) - set(PEOPLE))
    takes_what = things and slot.case == "accusative" and not slot.german and not slot.english
    pronouns = Combine(InterrogativePronoun, Pick([True] * people + [False] * takes_what))
    return OneOf((3.0, pronouns), (2.0, noun_phrase(pairs, nouns, Nominal("question"))))


# Adverbials -----------------------------------------------------------------------------------------------

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
    """Returns the choice of places where something can happen."""

    def at(phrase: NounPhrase) -> Place:
        assert phrase.noun.at is not None
        return Place(phrase, *phrase.noun.at)

    regions = Combine(lambda name: Place(NamePhrase(name), "in", "in", "dative"), Pick(REGIONS))
    return OneOf((5.0, Combine(at, noun_phrase(pairs, PLACES, Nominal("place")))), (1.0, regions))


@cache
def direction(pairs: Pairs) -> Choice[Place]:
    """Returns the choice of goals of a movement."""

    def to(phrase: NounPhrase) -> Place:
        assert phrase.noun.to is not None
        return Place(phrase, "to", *phrase.noun.to)

    regions = Combine(lambda name: Place(NamePhrase(name), "to", "nach", "dative"), Pick(REGIONS))
    return OneOf((3.0, Combine(to, noun_phrase(pairs, GOALS, Nominal("place")))), (1.0, regions))


@cache
def time(pairs: Pairs, tense: str) -> Choice[TimeExpression | ClockTime | EventTime]:
    """Returns the choice of adverbials of time for a tense.

    The perfect only allows fixed expressions such as "today".
    """
    expressions = Combine(TimeExpression, Pick([entry for entry in TIMES if tense in entry.tenses]))
    if tense == "perfect":
        return expressions
    hours = [numeral for numeral in NUMERALS if numeral.hour]
    clock = Combine(ClockTime, Pick(hours), Pick(["full", "half", "past", "to"]))
    events = noun_phrase(pairs, EVENTS, Nominal("fixed"))
    event_times = Combine(
        lambda words, event: EventTime(words[0], words[1], words[2], event), Pick(EVENT_PREPOSITIONS), events
    )
    return OneOf((6.0, expressions), (2.0, clock), (2.0, event_times))


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
    """Returns the choice of adverbials for a clause."""

    def adverbs(*kinds: str) -> Choice[Adverb]:
        return Pick([adverb for adverb in ADVERBS if adverb.kind in kinds and tense in adverb.use])

    places = place(pairs) if slots.place else Pick([])
    times = time(pairs, tense) if slots.time else Pick([])
    final_place, final_time = (maybe(0.25 if slots.final else 0.0, choice) for choice in (places, times))
    frequency = maybe(0.12 if slots.frequency else 0.0, adverbs("frequency", "late"))
    words = (frequency, maybe(0.2, Pick(slots.manners if slots.final else ())))
    nothing = Pick([None])
    if slots.question:
        return Combine(Adjuncts, *words, final_place, final_time, nothing, Pick([slots.question]))
    plain = Combine(Adjuncts, *words, final_place, final_time, nothing, nothing)
    if not slots.opening:
        return plain
    return OneOf(
        (70.0, plain),
        (16.0, Combine(Adjuncts, *words, final_place, times, nothing, nothing, Pick(["time"]))),
        (6.0, Combine(Adjuncts, *words, places, nothing, nothing, nothing, Pick(["place"]))),
        (8.0, Combine(Adjuncts, *words, final_place, final_time, adverbs("remark"), nothing, Pick(["remark"]))),
    )


# Predicates: tense, modality, voice and negation, with their adverbials -----------------------------------


class PredicateOptions(NamedTuple):
    """The forms that a predicate may have, which depend on its verb and its clause."""

    time_frame: str  # present, past, any or infinitive
    negated: bool
    passive: bool
    progressive: bool
    future: bool
    distinct_past: bool  # False for verbs whose past may look like their present: "they read"
    modals: str  # none, any, or without_volition: all but "want to" and "may", which here means permission
    adverbials: AdverbialSlots


class Predicate(NamedTuple):
    """The form of a predicate, and the adverbials of its clause."""

    form: VerbForm
    adjuncts: Adjuncts


@cache
def predicates(pairs: Pairs, options: PredicateOptions) -> Choice[Predicate]:
    """Returns the choice of predicate forms, each with adverbials that are compatible with it."""
    if options.time_frame == "infinitive":
        infinitive = Pick([Predicate(VerbForm("infinitive"), Adjuncts())])
        return Pick([]) if options.negated or options.passive else infinitive
    tenses: list[tuple[float, Tense, bool]] = []  # weight, tense, progressive
    if options.time_frame != "past":
        tenses += [(4.0, "present", False), (2.5, "perfect", False)]
        tenses += [(1.2, "future", False)] if options.future else []
        tenses += [(1.5, "present", True)] if options.progressive else []
    if options.time_frame != "present":
        tenses += [(6.0, "past", False)] if options.distinct_past else []
        tenses += [(0.6, "pluperfect", False)]
        tenses += [(1.2, "past", True)] if options.progressive else []
    forms = [
        (weight, VerbForm(tense, options.negated, progressive, options.passive))
        for weight, tense, progressive in tenses
    ]
    for modal in MODALS:
        fits = ("negative" if options.negated else "positive") in modal.polarity
        permitted = options.modals == "any" or (options.modals != "none" and modal.english not in ("want to", "may"))
        if fits and permitted and options.time_frame in ("any", modal.tense):
            forms.append((0.4, VerbForm(modal.tense, options.negated, False, options.passive, modal)))
    choices: list[tuple[float, Choice[Predicate]]] = []
    for weight, form in forms:
        slots = options.adverbials
        slots = slots._replace(frequency=slots.frequency and not form.progressive and not form.modal)
        if form.modal and form.tense == "present":
            tense = "future"
        else:
            tense = "past" if form.tense == "pluperfect" else form.tense
        choices.append((weight, Combine(Predicate, Pick([form]), adjuncts(pairs, slots, tense))))
    return OneOf(*choices)


# Clauses --------------------------------------------------------------------------------------------------

SUBJECT = -1  # stands for the subject where other numbers stand for slots
NEGATED = ((False, 86.0), (True, 14.0))
PASSIVE = 0.2  # weight of a passive relative to its active
CONJUNCTIONS_OF_COMPLEMENTS = {"that": ("that", "dass"), "whether": ("whether", "ob")}
VERB_WEIGHTS = {"be": 14.0, "become": 3.0, "rain": 0.6, "snow": 0.6}  # every other verb has weight 1


class Setting(NamedTuple):
    """The position of a clause in its sentence, and the requirements of that position."""

    time_frame: str = "any"  # present, past or any
    temporal: bool = False  # a time clause, which is neither negated nor in the future tense
    main: bool = False
    light: bool = False  # does not end in a phrase that the next clause could seem to continue
    gap: int | None = None  # the number of the slot that has no phrase, as in a relative clause
    interrogative_gap: bool = False  # the question is about the gap
    interrogative_adverb: InterrogativeAdverb | None = None
    question: bool = False
    infinitive: bool = False


def predicate_options(
    verb: Verb, setting: Setting, negated: bool, passive: bool, final: bool, subjects: tuple[Noun, ...] | None = None
) -> PredicateOptions:
    """Returns the forms that the predicate of a clause may have.

    `final` allows adverbials after the objects. `subjects` are the possible subjects, and may be None if these are all
    the subjects of the verb.
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
    """Returns True if the noun denotes a person or an animal, which can want something and be allowed to do it."""
    return bool(noun.classes & {"person", "animal"})


# Clauses with one verb ------------------------------------------------------------------------------------------------


@cache
def clause(pairs: Pairs, verb: Verb, setting: Setting, depth: int) -> Choice[Clause]:
    """Returns the choice of clauses with the given verb in the given setting."""
    if verb.complement == "adjective":
        return evenly(*(_copular(pairs, verb, setting, adjective) for adjective in ADJECTIVES))
    options: list[tuple[float, Choice[Clause]]] = []
    for negated, weight in _polarities(setting):
        options.append((weight, active(pairs, verb, setting, depth, negated)))
        if setting.gap is None:
            options.append((weight * PASSIVE, passive(pairs, verb, setting, depth, negated)))
    return OneOf(*options)


def _polarities(setting: Setting) -> tuple[tuple[bool, float], ...]:
    """Returns the possible polarities with their weights.

    Clauses of time, and questions about a time or a place, are always affirmative.
    """
    affirmative = setting.temporal or setting.interrogative_adverb in (WHEN, WHERE, WHITHER)
    return NEGATED[:1] if affirmative else NEGATED


def active(pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool) -> Choice[Clause]:
    """Returns the choice of active clauses.

    A clause ends either in its last object, which may then be heavy, or in adverbials.
    """

    def build(predicate: Predicate, subject: Phrase, objects: tuple[Phrase, ...], rest: Complement | None) -> Clause:
        return Clause(verb, predicate.form, subject, objects, predicate.adjuncts, rest)

    rest = complement(pairs, verb, setting, depth)
    options: list[tuple[float, Choice[Clause]]] = []
    # Adverbials may end a clause, but never after another clause or a heavy object.
    heavy = bool(verb.slots) and depth > 0 and not setting.light and not _ends_in_recipient(verb)
    endings = [(False, 0.4), (True, 0.6)] if heavy else [(True, 1.0)]
    if verb.complement in ("that", "whether", "to") or setting.infinitive:
        endings = [(False, 1.0)]
    for final, share in endings:
        forms = predicates(pairs, predicate_options(verb, setting, negated, False, final))
        for weight, limits, subjects in _subjects(pairs, verb, setting, depth, negated):
            phrases = objects(pairs, verb, setting, 0 if final else depth, negated, limits)
            options.append((weight * share, Combine(build, forms, subjects, phrases, rest)))
    return OneOf(*options)


def _subjects(
    pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool
) -> list[tuple[float, ObjectLimits, Choice[Phrase]]]:
    """Returns the possible subjects, each with its weight and the limits that it sets for the objects."""
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
    """Returns True if English places the recipient, with "to", after the object that comes last in German."""
    return len(verb.slots) > 1 and bool(verb.slots[0].english)


@cache
def objects(
    pairs: Pairs, verb: Verb, setting: Setting, depth: int, negated: bool, limits: ObjectLimits
) -> Choice[tuple[Phrase, ...]]:
    """Returns the choice of objects of a verb.

    All objects but the last are definite. The last object may be heavy if it comes last in both languages.
    """
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
    """Returns the choice of complements that the verb requires in addition to its objects.

    A complement is a place, a direction, an infinitive or a clause, or None if the verb requires no complement.
    """
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
    """Returns the choice of passive clauses, with and without an agent.

    If the setting has a gap, the gap is the subject.
    """

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
    """Returns the choice of clauses that consist of a subject, a copula and the given adjective."""

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


# Clauses with any verb ------------------------------------------------------------------------------------------------


@cache
def any_clause(pairs: Pairs, setting: Setting, depth: int) -> Choice[Clause]:
    """Returns the choice of clauses with any verb.

    An infinitive takes a verb that can have a person as its subject and is not reflexive, because a reflexive pronoun
    would have to agree with the subject of the higher clause.
    """
    verbs = VERBS
    if setting.infinitive:
        simple = ("", "direction", "place")
        people = (verb for verb in VERBS if set(PEOPLE) & set(verb.subjects) and not verb.reflexive)
        verbs = tuple(verb for verb in people if verb.complement in simple)
    return OneOf(*((VERB_WEIGHTS.get(verb.english, 1.0), clause(pairs, verb, setting, depth)) for verb in verbs))


@cache
def relative(pairs: Pairs, noun: Noun, depth: int) -> Choice[Clause]:
    """Returns the choice of relative clauses in which the noun is the subject, an object, or a passive subject."""
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


# Sentences: simple, complex and compound statements, and questions ----------------------------------------

DEPTH = 2  # maximum depth to which clauses are nested in a sentence
COORDINATING = [("and", "und"), ("but", "aber"), ("or", "oder")]


@cache
def sentence(pairs: Pairs, depth: int = DEPTH) -> Choice[Sentence]:
    """Returns the choice of all sentences.

    `depth` is the maximum depth to which clauses are nested, and must be at least 2.
    """
    statements = any_clause(pairs, Setting(main=True), depth)
    yes_no_questions = any_clause(pairs, Setting(main=True, question=True), 0)
    return OneOf(
        (52.0, Combine(Sentence, Pick(["statement"]), statements)),
        (16.0, complex_statement(pairs, depth)),
        (8.0, compound_statement(pairs, depth)),
        (8.0, Combine(Sentence, Pick(["question"]), yes_no_questions)),
        (12.0, Combine(Sentence, Pick(["question"]), wh_question(pairs))),
    )


def complex_statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """Returns the choice of main clauses with a subordinate clause before or after them.

    Both clauses are in the same time frame.
    """
    options: list[tuple[float, Choice[Sentence]]] = []
    for time_frame, kind in product(("present", "past"), ("time", "reason")):
        conjunctions = Pick([word for word in CONJUNCTIONS if time_frame in word.tenses and kind == word.kind])
        below = any_clause(pairs, Setting(time_frame=time_frame, temporal=kind == "time"), depth - 2)
        for first, weight in ((True, 1.0), (False, 1.5)):

            def build(main: Clause, word: Conjunction, below: Clause, first: bool = first) -> Sentence:
                return Sentence("statement", main, SubordinateClause(word.english, word.german, below), first)

            main = any_clause(pairs, Setting(time_frame=time_frame, main=not first), depth - 1)
            options.append((weight, Combine(build, main, conjunctions, below)))
    return OneOf(*options)


def compound_statement(pairs: Pairs, depth: int) -> Choice[Sentence]:
    """Returns the choice of two coordinated main clauses.

    The first clause never ends in a phrase that the second clause could seem to continue.
    """

    def build(first: Clause, conjunction: tuple[str, str], second: Clause) -> Sentence:
        return Sentence("statement", first, None, False, conjunction, second)

    first = any_clause(pairs, Setting(main=True, light=True), 0)
    second = any_clause(pairs, Setting(main=True), depth - 2)
    return Combine(build, first, Pick(COORDINATING, [4.0, 3.0, 0.5]), second)


def wh_question(pairs: Pairs) -> Choice[Clause]:
    """Returns the choice of questions about the subject, an object, a place, a time or a reason."""
    options: list[tuple[float, Choice[Clause]]] = []
    for verb in VERBS:
        if verb.complement in ("", "place", "direction") and verb.subjects:
            numbers = range(0 if "unmoved" in verb.traits else len(verb.slots))
            settings = [
                (2.0, Setting(main=True, question=True, gap=number, interrogative_gap=True)) for number in numbers
            ]
            if set(PEOPLE) & set(verb.subjects):
                settings.append((0.7, Setting(main=True, question=True, gap=SUBJECT, interrogative_gap=True)))
            adverbs = [WHEN, WHY] if "lasting" not in verb.traits else [WHY]
            if verb.complement == "direction":
                adverbs = [WHEN, WHY, WHITHER]
            elif "lasting" not in verb.traits and (verb.complement == "place" or "place" in verb.traits):
                adverbs = [WHEN, WHY, WHERE]
            settings += [(0.7, Setting(main=True, question=True, interrogative_adverb=adverb)) for adverb in adverbs]
            options += [(weight, clause(pairs, verb, setting, 0)) for weight, setting in settings]
    return OneOf(*options)
