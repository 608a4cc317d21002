"""Rules for noun phrases, names and pronouns, and for the phrases that fill an object slot."""

from functools import cache
from typing import NamedTuple

from transduce.embedded.grammar.choices import Choice, Combine, OneOf, Pick, evenly, maybe
from transduce.embedded.grammar.held_out_pairs import Pairs
from transduce.embedded.lexicon import (
    ADJECTIVES,
    ATTRIBUTES,
    DETERMINERS,
    NAMES,
    NUMERALS,
    PRONOUNS,
    find_entry,
    select_nouns,
)
from transduce.embedded.lexicon_entries import Attribute, Determiner, Noun, Number, Numeral, Slot
from transduce.embedded.syntax import (
    AdjectivePhrase,
    Coordination,
    InterrogativePronoun,
    Modifier,
    NamePhrase,
    NounPhrase,
    Phrase,
    Possessor,
    PrepositionalModifier,
    Pronoun,
)

WEIGHTS = {"the": 40.0, "a": 26.0}  # of determiners; 3 for any other
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
    """How a noun phrase may be built.

    The role selects the determiners: `subject`, `object`, `negated` (in the scope of "not"), `oblique` (after a
    preposition), `place`, `fixed` (definite) or `question`. `depth` is how deep clauses may nest in the phrase;
    `heavy` allows a relative clause at its end; `plain` forbids adjective and modifier.
    """

    role: str
    depth: int = 0
    heavy: bool = False
    plain: bool = False


# Before the noun -----------------------------------------------------------------------------------------


@cache
def determination(noun: Noun, role: str) -> Choice[Determination]:
    """Returns the determiners, numbers and numerals that a noun takes in a role."""
    weighted: list[tuple[Determination, float]] = []
    for determiner in DETERMINERS:
        if role in determiner.roles:
            weight = WEIGHTS.get(determiner.english, 3.0)
            for number in _numbers(noun, determiner, role):
                share = PLURAL if number == "plural" and "singular" in determiner.numbers else 1.0
                weighted.append((Determination(determiner, number), weight * share))
    weighted += _undetermined(noun, role)
    return Pick([value for value, _ in weighted], [weight for _, weight in weighted])


def _numbers(noun: Noun, determiner: Determiner, role: str) -> list[Number]:
    """Returns the numbers in which the determiner goes with the noun."""
    possessive = determiner.tag == "PRP$"
    if possessive and noun not in OWNED:
        return []
    if not noun.plural:
        return ["singular"] if possessive or determiner.english in ("the", "which") else []
    numbers: tuple[Number, ...] = ("singular",) if role == "place" else ("singular", "plural")
    return [number for number in numbers if number in determiner.numbers]


def _undetermined(noun: Noun, role: str) -> list[tuple[Determination, float]]:
    """Returns bare nouns, and numerals with and without an article, with their weights."""
    if not noun.plural:
        bare = role in ("subject", "object", "negated", "oblique") and "meal" not in noun.classes
        return [(Determination(None, "singular"), 30.0)] if bare else []
    weighted: list[tuple[Determination, float]] = []
    if role in ("subject", "object", "negated", "oblique"):
        weighted.append((Determination(None, "plural"), 8.0))
    if role in ("subject", "object", "oblique"):
        weighted += [(Determination(None, "plural", numeral), 0.8) for numeral in COUNTS]
        weighted += [(Determination(THE, "plural", numeral), 0.2) for numeral in COUNTS]
    return weighted


@cache
def adjective_phrase(pairs: Pairs, noun: Noun) -> Choice[AdjectivePhrase | None]:
    """Returns no adjective, or one that describes the noun."""
    adjectives = [word for word in ADJECTIVES if noun in word.nouns and pairs.allow(word, noun)]
    # Each sample is a new object, because alignment distinguishes two equal adjectives by identity.
    plain = Combine(AdjectivePhrase, Pick(adjectives), Pick([False]))
    gradable = Pick([word for word in adjectives if "absolute" not in word.traits])
    very = Combine(AdjectivePhrase, gradable, Pick([True]))
    # A noun has few held-out adjectives: with the common probability `novel` would have hardly any adjective.
    probability = 0.7 if pairs.kind == "held out" else 0.38
    return maybe(probability, OneOf((8.0, plain), (1.0, very)))


# Around the noun -----------------------------------------------------------------------------------------


@cache
def noun_phrase(pairs: Pairs, nouns: tuple[Noun, ...], nominal: Nominal) -> Choice[NounPhrase]:
    """Returns the phrases around these nouns."""
    return evenly(*(phrase_around(pairs, noun, nominal) for noun in nouns))


@cache
def phrase_around(pairs: Pairs, noun: Noun, nominal: Nominal) -> Choice[NounPhrase]:
    """Returns the phrases around one noun."""

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
        # Imported here because noun phrases and clauses contain each other.
        from transduce.embedded.grammar.clauses import relative

        options.append((16.0, Combine(build, before, adjective, relative(pairs, noun, nominal.depth - 1))))
    return OneOf(*options)


@cache
def possessor(pairs: Pairs, noun: Noun) -> Choice[Possessor]:
    """Returns the owners of a noun, before or behind it; the building of a part is behind it."""

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
    """Returns the prepositional phrases that modify a noun."""
    return evenly(*(_modifier(pairs, attribute) for attribute in ATTRIBUTES if noun in attribute.nouns))


@cache
def _modifier(pairs: Pairs, attribute: Attribute) -> Choice[PrepositionalModifier]:
    phrases = noun_phrase(pairs, attribute.fillers, Nominal("oblique"))
    return Combine(lambda phrase: PrepositionalModifier(attribute, phrase), phrases)


# Other phrases -------------------------------------------------------------------------------------------


@cache
def person_name() -> Choice[NamePhrase]:
    """Returns the first names of people."""
    return Combine(NamePhrase, Pick([name for name in NAMES if name.kind == "person"]))


@cache
def pronoun(third_person_only: bool) -> Choice[Pronoun]:
    """Returns the personal pronouns, all or those of the third person."""
    return Combine(Pronoun, Pick([entry for entry in PRONOUNS if entry.person == "third" or not third_person_only]))


@cache
def coordination(pairs: Pairs, nouns: tuple[Noun, ...]) -> Choice[Coordination]:
    """Returns two different nouns joined by "and", without modifiers, which could belong to either noun."""
    first, second = (noun_phrase(pairs, half, Nominal("fixed")) for half in (nouns[::2], nouns[1::2]))
    return Combine(Coordination, first, second)


@cache
def subject(pairs: Pairs, nouns: tuple[Noun, ...], nominal: Nominal) -> Choice[Phrase]:
    """Returns subjects around one noun, or two people."""
    people = tuple(noun for noun in nouns if noun in PEOPLE)
    return OneOf((80.0, noun_phrase(pairs, nouns, nominal)), (5.0, coordination(pairs, people)))


class ObjectLimits(NamedTuple):
    """The objects that a subject allows, so that subject and object are never the same person."""

    third_person_only: bool  # no pronouns of the first and second person
    names: bool


@cache
def object_phrase(
    pairs: Pairs, slot: Slot, nouns: tuple[Noun, ...], nominal: Nominal, limits: ObjectLimits
) -> Choice[Phrase]:
    """Returns the phrases that fill an object slot; `nouns` are the nouns of the slot that `pairs` allows."""
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
    """Returns "who", "what" or "which" with a noun of the slot; "what" never follows a preposition."""
    people, things = bool(set(PEOPLE) & set(slot.nouns)), bool(set(slot.nouns) - set(PEOPLE))
    takes_what = things and slot.case == "accusative" and not slot.german and not slot.english
    pronouns = Combine(InterrogativePronoun, Pick([True] * people + [False] * takes_what))
    return OneOf((3.0, pronouns), (2.0, noun_phrase(pairs, nouns, Nominal("question"))))
