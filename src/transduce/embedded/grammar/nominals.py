"""Rules for noun phrases, names and pronouns: what may stand around a noun, and what may fill a slot."""

from functools import cache
from typing import NamedTuple

from transduce.embedded.grammar.choices import Choice, Each, OneOf, Pick, evenly, maybe
from transduce.embedded.grammar.pairs import Pairs
from transduce.embedded.lexicon import ADJECTIVES, ATTRIBUTES, DETERMINERS, NAMES, NUMERALS, PERSONS, named, selected
from transduce.embedded.lexicon_entries import Attribute, Determiner, Noun, Number, Numeral, Slot
from transduce.embedded.syntax import (
    Both,
    Description,
    Modifier,
    NamePhrase,
    NounPhrase,
    Phrase,
    Possessor,
    Pronoun,
    Quality,
    Query,
)

WEIGHTS = {"the": 40.0, "a": 26.0}  # of determiners; 3 for any other
PLURAL = 0.4  # how often a plural to each singular
PEOPLE = selected("person")
BUILDINGS = selected("building")
PARTS = frozenset(selected("opening,part"))
OWNED = frozenset(
    selected(
        "relation,pet,clothing,vehicle-ship,container,thing,text,image,house,garden,room,idea,furniture,device,"
        "instrument,food,drink,event,meal,tale,music,fragile,plant,work,village,school,factory,opening,part,"
        "child,teacher,doctor,lawyer,guest,customer,pupil,student,chef,gardener"
    )
)
THE = named(DETERMINERS, "the")
COUNTS = [numeral for numeral in NUMERALS if "count" in numeral.use]


class Determination(NamedTuple):
    """What comes before the adjective: article or the like, number, numeral."""

    determiner: Determiner | None
    number: Number
    numeral: Numeral | None = None


class Nominal(NamedTuple):
    """How a noun phrase may be built.

    The role chooses the determiners: `subject`, `object`, `negated` (within the reach of "not"), `oblique` (after a
    preposition), `place`, `fixed` (definite) or `question`. `depth` says how far clauses may still nest in it,
    `heavy` whether it may end in a relative clause, `plain` that it has neither adjective nor modifier.
    """

    role: str
    depth: int = 0
    heavy: bool = False
    plain: bool = False


# Before the noun -----------------------------------------------------------------------------------------


@cache
def determination(noun: Noun, role: str) -> Choice[Determination]:
    """The determiners, numbers and numerals that a noun takes in a role."""
    found: list[tuple[Determination, float]] = []
    for determiner in DETERMINERS:
        if role in determiner.roles:
            weight = WEIGHTS.get(determiner.english, 3.0)
            for number in _numbers(noun, determiner, role):
                share = PLURAL if number == "plural" and "singular" in determiner.numbers else 1.0
                found.append((Determination(determiner, number), weight * share))
    found += _undetermined(noun, role)
    return Pick([choice for choice, _ in found], [weight for _, weight in found])


def _numbers(noun: Noun, determiner: Determiner, role: str) -> list[Number]:
    """The numbers in which this determiner goes with this noun."""
    possessive = determiner.tag == "PRP$"
    if possessive and noun not in OWNED:
        return []
    if not noun.plural:
        return ["singular"] if possessive or determiner.english in ("the", "which") else []
    numbers: tuple[Number, ...] = ("singular",) if role == "place" else ("singular", "plural")
    return [number for number in numbers if number in determiner.numbers]


def _undetermined(noun: Noun, role: str) -> list[tuple[Determination, float]]:
    """Bare nouns, and numerals with an article or without."""
    if not noun.plural:
        bare = role in ("subject", "object", "negated", "oblique") and "meal" not in noun.classes
        return [(Determination(None, "singular"), 30.0)] if bare else []
    found: list[tuple[Determination, float]] = []
    if role in ("subject", "object", "negated", "oblique"):
        found.append((Determination(None, "plural"), 8.0))
    if role in ("subject", "object", "oblique"):
        found += [(Determination(None, "plural", numeral), 0.8) for numeral in COUNTS]
        found += [(Determination(THE, "plural", numeral), 0.2) for numeral in COUNTS]
    return found


@cache
def quality(pairs: Pairs, noun: Noun) -> Choice[Quality | None]:
    """No adjective, or one that goes with the noun."""
    fitting = [word for word in ADJECTIVES if noun in word.nouns and pairs.allow(word, noun)]
    # Made anew for each phrase: what is aligned is told apart by which object it is.
    plain = Each(Quality, Pick(fitting), Pick([False]))
    very = Each(Quality, Pick([word for word in fitting if "absolute" not in word.traits]), Pick([True]))
    # Few adjectives are held out for any one noun: without this, `novel` would have hardly any.
    share = 0.7 if pairs.kind == "held out" else 0.38
    return maybe(share, OneOf((8.0, plain), (1.0, very)))


# Around the noun -----------------------------------------------------------------------------------------


@cache
def noun_phrase(pairs: Pairs, nouns: tuple[Noun, ...], nominal: Nominal) -> Choice[NounPhrase]:
    """A phrase around one of some nouns."""
    return evenly(*(around(pairs, noun, nominal) for noun in nouns))


@cache
def around(pairs: Pairs, noun: Noun, nominal: Nominal) -> Choice[NounPhrase]:
    """A phrase around a noun."""

    def built(before: Determination, quality: Quality | None, modifier: Modifier | None) -> NounPhrase:
        return NounPhrase(noun, *before, quality, modifier)

    before = determination(noun, nominal.role)
    nothing: Choice[None] = Pick([None])
    if nominal.plain:
        return Each(built, before, nothing, nothing)
    adjective = quality(pairs, noun)
    options = [(100.0, Each(built, before, adjective, nothing))]
    if nominal.depth > 0:
        definite = [Determination(THE, number) for number in _numbers(noun, THE, nominal.role)]
        owned = Pick(definite, [1.0, PLURAL][: len(definite)])
        options.append((14.0, Each(built, owned, adjective, possessor(pairs, noun))))
        options.append((7.0, Each(built, before, adjective, description(pairs, noun))))
    if nominal.heavy and nominal.depth > 0:
        # Noun phrases and clauses contain each other, so one of the two modules must wait for the other.
        from transduce.embedded.grammar.clauses import relative

        options.append((16.0, Each(built, before, adjective, relative(pairs, noun, nominal.depth - 1))))
    return OneOf(*options)


@cache
def possessor(pairs: Pairs, noun: Noun) -> Choice[Possessor]:
    """Whose it is, said before it or behind it; the parts of a building have their owner behind."""

    def before(owner: NounPhrase | NamePhrase) -> Possessor:
        return Possessor(owner, True)

    def behind(owner: NounPhrase) -> Possessor:
        return Possessor(owner, False)

    if noun in PARTS:
        return Each(behind, noun_phrase(pairs, BUILDINGS, Nominal("fixed")))
    if noun not in OWNED:
        return Pick([])
    people = noun_phrase(pairs, tuple(person for person in PEOPLE if person is not noun), Nominal("fixed"))
    return OneOf((4.0, Each(before, people)), (3.0, Each(before, person_name())), (3.0, Each(behind, people)))


@cache
def description(pairs: Pairs, noun: Noun) -> Choice[Description]:
    """A prepositional phrase that suits the noun."""
    return evenly(*(_described(pairs, attribute) for attribute in ATTRIBUTES if noun in attribute.nouns))


@cache
def _described(pairs: Pairs, attribute: Attribute) -> Choice[Description]:
    phrases = noun_phrase(pairs, attribute.fillers, Nominal("oblique"))
    return Each(lambda phrase: Description(attribute, phrase), phrases)


# Other phrases -------------------------------------------------------------------------------------------


@cache
def person_name() -> Choice[NamePhrase]:
    """The first name of a person."""
    return Each(NamePhrase, Pick([name for name in NAMES if name.kind == "person"]))


@cache
def pronoun(third: bool) -> Choice[Pronoun]:
    """A personal pronoun, any or only of the third person."""
    return Each(Pronoun, Pick([entry for entry in PERSONS if entry.person == "third" or not third]))


@cache
def both(pairs: Pairs, nouns: tuple[Noun, ...]) -> Choice[Both]:
    """Two different nouns joined by "and"; simple phrases, so that what follows can belong to neither."""
    first, second = (noun_phrase(pairs, half, Nominal("fixed")) for half in (nouns[::2], nouns[1::2]))
    return Each(Both, first, second)


@cache
def subject(pairs: Pairs, nouns: tuple[Noun, ...], nominal: Nominal) -> Choice[Phrase]:
    """A subject around a noun, or two."""
    people = tuple(noun for noun in nouns if noun in PEOPLE)
    return OneOf((80.0, noun_phrase(pairs, nouns, nominal)), (5.0, both(pairs, people)))


class Company(NamedTuple):
    """What may be an object beside a certain subject: nobody sees himself here, in name or pronoun."""

    third: bool  # pronouns of the third person only
    names: bool


@cache
def filler(pairs: Pairs, slot: Slot, nouns: tuple[Noun, ...], nominal: Nominal, company: Company) -> Choice[Phrase]:
    """What may stand in an object slot; `nouns` are those of the slot that the pairs leave."""
    options: list[tuple[float, Choice[Phrase]]] = [(80.0, noun_phrase(pairs, nouns, nominal))]
    if set(PEOPLE) & set(slot.nouns):
        options.append((16.0, pronoun(company.third)))
        if company.names:
            options.append((12.0, person_name()))
    if slot.case == "accusative" and nominal.role == "object":
        options.append((5.0, both(pairs, nouns)))
    return OneOf(*options)


@cache
def asked(pairs: Pairs, slot: Slot, nouns: tuple[Noun, ...]) -> Choice[Phrase]:
    """What a question asks for in a slot: who, what, or which of the nouns; after prepositions never what."""
    human = [Query(True)] if set(PEOPLE) & set(slot.nouns) else []
    thing = [Query(False)] if set(slot.nouns) - set(PEOPLE) and slot.case == "accusative" else []
    bare = not slot.german and not slot.english
    queries = Each(lambda query: Query(*query), Pick(human + (thing if bare else [])))
    return OneOf((3.0, queries), (2.0, noun_phrase(pairs, nouns, Nominal("question"))))
