"""Rules of the grammar below the clause: noun phrases, names, pronouns, places and times."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from transduce.embedded.choices import Choice, Each, OneOf, Pick, evenly
from transduce.embedded.lexicon import (
    ADJECTIVES,
    ATTRIBUTES,
    DETERMINERS,
    NAMES,
    NOUNS,
    NUMERALS,
    PERSONS,
    TIMES,
    Determiner,
    Noun,
    Number,
    Numeral,
    Slot,
    named,
    selected,
)
from transduce.embedded.pairs import Pairs
from transduce.embedded.syntax import (
    Both,
    Clause,
    Clock,
    Description,
    During,
    NamePhrase,
    NounPhrase,
    Phrase,
    Place,
    Possessor,
    Pronoun,
    Quality,
    Query,
    SetTime,
)

DETERMINER_WEIGHTS = {"the": 40.0, "a": 25.0}
OWNABLE = set(
    selected(
        "relation,pet,clothing,vehicle,container,thing,text,image,house,garden,room,idea,furniture,device,instrument"
    )
)
PEOPLE = selected("person")
OPENINGS = set(selected("opening,part"))
BUILDINGS = selected("building")
PLACES = tuple(noun for noun in NOUNS if noun.at)
EVENTS = selected("event,meal")


class Determination(NamedTuple):
    """What comes before the adjective: article or the like, number, numeral."""

    determiner: Determiner | None
    number: Number
    numeral: Numeral | None = None


class Nominal(NamedTuple):
    """How a noun phrase may be built: its role, how deep its modifiers may nest, what it may carry."""

    role: str
    depth: int = 0
    heavy: bool = False  # may end in a relative clause
    plain: bool = False  # neither adjective nor modifier


Relative = Callable[[Pairs, Noun, int], Choice[Clause]]


@cache
def determination(noun: Noun, role: str) -> Choice[Determination]:
    """The determiners, numbers and numerals that a noun takes in a role."""
    found: list[tuple[float, Determination]] = []
    for determiner in DETERMINERS:
        if role in determiner.roles:
            weight = DETERMINER_WEIGHTS.get(determiner.english, 3.0)
            found += [(weight, Determination(determiner, number)) for number in _numbers(noun, determiner)]
    if noun.plural and role in ("subject", "object", "negated", "oblique"):
        found.append((8.0, Determination(None, "plural")))
    if noun.plural and role in ("subject", "object", "oblique"):
        the = named(DETERMINERS, "the")
        counts = [numeral for numeral in NUMERALS if "count" in numeral.use]
        found += [(0.8, Determination(None, "plural", numeral)) for numeral in counts]
        found += [(0.2, Determination(the, "plural", numeral)) for numeral in counts]
    if not noun.plural and "meal" not in noun.classes and role != "fixed":
        found.append((30.0, Determination(None, "singular")))
    return Pick([choice for _, choice in found], [weight for weight, _ in found])


def _numbers(noun: Noun, determiner: Determiner) -> list[Number]:
    """The numbers in which this determiner goes with this noun."""
    if noun.plural:
        return [number for number in ("singular", "plural") if number in determiner.numbers]
    uncounted = ("the", "my", "your", "his", "her", "our", "their", "which")
    return ["singular"] if determiner.english in uncounted else []


@cache
def quality(pairs: Pairs, noun: Noun) -> Choice[Quality | None]:
    """No adjective, or one that goes with the noun."""
    fitting = [adjective for adjective in ADJECTIVES if noun in adjective.nouns and pairs.allow(adjective, noun)]
    plain = Pick([Quality(adjective, False) for adjective in fitting])
    very = Pick([Quality(adjective, True) for adjective in fitting if adjective.english != "broken"])
    often = 120.0 if pairs.kind == "held_out" else 34.0
    return OneOf((62.0, Pick([None])), (often, plain), (often / 8, very))


@cache
def noun_phrase(pairs: Pairs, nouns: tuple[Noun, ...], nominal: Nominal) -> Choice[Phrase]:
    """A phrase around one of some nouns."""
    return evenly(*(_around(pairs, noun, nominal) for noun in nouns))


@cache
def _around(pairs: Pairs, noun: Noun, nominal: Nominal) -> Choice[NounPhrase]:
    before: Choice[Determination] = determination(noun, nominal.role)
    described: Choice[Quality | None] = Pick([None]) if nominal.plain else quality(pairs, noun)

    def built(chosen: Determination, quality: Quality | None, modifier: object = None) -> NounPhrase:
        return NounPhrase(noun, *chosen, quality, modifier)  # type: ignore[arg-type]

    options: list[tuple[float, Choice[NounPhrase]]] = [(100.0, Each(built, before, described))]
    if nominal.depth > 0 and not nominal.plain and nominal.role != "question":
        definite = OneOf(
            (3.0, Pick([Determination(named(DETERMINERS, "the"), "singular")])),
            (1.0, Pick([Determination(named(DETERMINERS, "the"), "plural")] if noun.plural else [])),
        )
        options.append((14.0, Each(built, definite, described, possessor(pairs, noun))))
        options.append((7.0, Each(built, before, described, description(pairs, noun))))
        if nominal.heavy:
            from transduce.embedded.clauses import relative

            options.append((14.0, Each(built, before, described, relative(pairs, noun, nominal.depth - 1))))
    return OneOf(*options)


@cache
def possessor(pairs: Pairs, noun: Noun) -> Choice[Possessor]:
    """Whose a thing is, before it or behind it; the parts of a building have theirs behind."""
    people = noun_phrase(pairs, PEOPLE, Nominal("fixed"))
    if noun in OPENINGS:
        buildings = noun_phrase(pairs, BUILDINGS, Nominal("fixed"))
        return Each(lambda owner: Possessor(owner, False), buildings)
    if noun not in OWNABLE:
        return Pick([])
    return OneOf(
        (4.0, Each(lambda owner: Possessor(owner, True), people)),
        (3.0, Each(lambda owner: Possessor(owner, True), person_name())),
        (3.0, Each(lambda owner: Possessor(owner, False), people)),
    )


@cache
def description(pairs: Pairs, noun: Noun) -> Choice[Description]:
    """A prepositional phrase that suits the noun."""
    return evenly(
        *(
            Each(
                lambda phrase, attribute=attribute: Description(attribute, phrase),
                noun_phrase(
                    pairs, tuple(filler for filler in attribute.fillers if filler is not noun), Nominal("oblique")
                ),
            )
            for attribute in ATTRIBUTES
            if noun in attribute.nouns
        )
    )


@cache
def person_name() -> Choice[NamePhrase]:
    """The first name of a person."""
    return Each(NamePhrase, Pick([name for name in NAMES if name.kind == "person"]))


@cache
def pronoun(persons: str) -> Choice[Pronoun]:
    """A personal pronoun, any or only of the third person."""
    return Each(Pronoun, Pick([one for one in PERSONS if persons == "all" or one.person == "third"]))


@cache
def both(pairs: Pairs, nouns: tuple[Noun, ...], role: str) -> Choice[Both]:
    """Two noun phrases joined by "and"; simple ones, so that what follows can belong to neither."""
    one = noun_phrase(pairs, nouns, Nominal("fixed" if role == "subject" else role))
    return Each(Both, one, one)


@cache
def subject(pairs: Pairs, nouns: tuple[Noun, ...], depth: int) -> Choice[Phrase]:
    """A subject that is no pronoun."""
    options: list[tuple[float, Choice[Phrase]]] = [
        (80.0, noun_phrase(pairs, nouns, Nominal("subject", depth, heavy=True)))
    ]
    if nouns and "person" in nouns[0].classes:
        people = tuple(noun for noun in nouns if "person" in noun.classes)
        options += [(14.0, person_name()), (5.0, both(pairs, people, "subject"))]
    return OneOf(*options)


@cache
def filler(pairs: Pairs, slot: Slot, nouns: tuple[Noun, ...], nominal: Nominal, persons: str) -> Choice[Phrase]:
    """What may stand in an object slot; `nouns` are those of the slot that the pairs leave."""
    options: list[tuple[float, Choice[Phrase]]] = [(80.0, noun_phrase(pairs, nouns, nominal))]
    if any("person" in noun.classes for noun in slot.nouns):
        options.append((12.0, person_name()))
        if nominal.role != "question":
            options.append((16.0, pronoun(persons)))
    if slot.case == "accusative" and nominal.role == "object":
        options.append((5.0, both(pairs, nouns, "fixed")))
    return OneOf(*options)


@cache
def query(slot: Slot) -> Choice[Phrase]:
    """ "Who" or "what", where the slot takes people or things; after a preposition only people are asked for."""
    human = any("person" in noun.classes for noun in slot.nouns)
    thing = any("person" not in noun.classes for noun in slot.nouns) and not slot.german and not slot.english
    return OneOf(
        (1.0, Each(lambda: Query(True)) if human else Pick([])),
        (1.0, Each(lambda: Query(False)) if thing and slot.case == "accusative" else Pick([])),
    )


@cache
def place(pairs: Pairs) -> Choice[Place]:
    """Where something happens."""
    cities = [name for name in NAMES if name.kind in ("city", "country")]

    def at(phrase: NounPhrase) -> Place:
        assert phrase.noun.at is not None
        return Place(phrase, *phrase.noun.at)

    return OneOf(
        (5.0, Each(at, noun_phrase(pairs, PLACES, Nominal("oblique")))),
        (1.0, Each(lambda name: Place(NamePhrase(name), "in", "in", "dative"), Pick(cities))),
    )


@cache
def direction(pairs: Pairs) -> Choice[Place]:
    """Where somebody goes."""
    cities = [name for name in NAMES if name.kind in ("city", "country")]
    goals = tuple(noun for noun in PLACES if noun.to)

    def to(phrase: NounPhrase) -> Place:
        assert phrase.noun.to is not None
        return Place(phrase, "to", *phrase.noun.to)

    return OneOf(
        (3.0, Each(to, noun_phrase(pairs, goals, Nominal("oblique")))),
        (1.0, Each(lambda name: Place(NamePhrase(name), "to", "nach", "dative"), Pick(cities))),
    )


@cache
def time(pairs: Pairs, tense: str) -> Choice[SetTime | Clock | During]:
    """When something happens; what goes with the tense."""
    fitting = [entry for entry in TIMES if tense in entry.tenses]
    options: list[tuple[float, Choice[SetTime | Clock | During]]] = [(6.0, Each(SetTime, Pick(fitting)))]
    if tense != "perfect":
        hours = [numeral for numeral in NUMERALS if numeral.hour]
        options.append((2.0, Each(Clock, Pick(hours), Pick(["full", "half", "past", "to"]))))
        options.append((2.0, during(pairs)))
    return OneOf(*options)


@cache
def during(pairs: Pairs) -> Choice[During]:
    """Before, after or during an event."""
    words = (("before", "vor", "dative"), ("after", "nach", "dative"), ("during", "während", "genitive"))
    event = noun_phrase(pairs, EVENTS, Nominal("fixed"))
    return evenly(*(Each(lambda phrase, word=word: During(*word, phrase), event) for word in words))
