"""Choices: what is counted is what is enumerated, and what is sampled is what is weighed."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from transduce.embedded import count_derivations
from transduce.embedded.grammar.adverbials import direction, time
from transduce.embedded.grammar.choices import Choice, Each, OneOf, Pick, evenly, maybe
from transduce.embedded.grammar.clauses import Setting, clause
from transduce.embedded.grammar.nominals import Nominal, around, determination, possessor
from transduce.embedded.grammar.pairs import Pairs
from transduce.embedded.lexicon import NOUNS, VERBS, lemmas, named

EVERY = Pairs("every")


def thickets(depth: int) -> Choice[object]:
    """A leaf of two kinds, or a pair of smaller thickets: a grammar small enough to list."""
    leaf = Pick(["oak", "elm"])
    if depth == 0:
        return leaf
    smaller = thickets(depth - 1)
    return OneOf((1.0, leaf), (2.0, Each(lambda left, right: (left, right), smaller, smaller)))


def test_recursive_rules_are_counted_as_they_are_enumerated() -> None:
    counts = [thickets(depth).count for depth in range(4)]
    assert counts == [2, 2 + 2 * 2, 2 + 6 * 6, 2 + 38 * 38]
    listed = list(thickets(3).everything())
    assert len(listed) == len(set(listed)) == 1446


def test_rules_of_the_grammar_are_counted_as_they_are_enumerated() -> None:
    door, student, rain = named(NOUNS, "door"), named(NOUNS, "student"), named(VERBS, "rain")
    rules: list[Choice[object]] = [
        determination(student, "subject"),
        around(EVERY, student, Nominal("fixed")),
        around(EVERY, door, Nominal("object", depth=1)),
        possessor(EVERY, door),
        direction(EVERY),
        time(EVERY, "past"),
        clause(EVERY, rain, Setting(family="past", infinitive=False), 0),
    ]
    for rule in rules:
        listed = list(rule.everything())
        assert rule.count == len(listed) == len(set(listed)) > 10


def test_samples_come_from_the_enumeration_and_reach_all_of_it() -> None:
    rule = thickets(2)
    draw = Random(3).random
    assert {rule.sample(draw) for _ in range(3000)} == set(rule.everything())


def test_weights_are_shares_and_empty_or_weightless_rules_never_come() -> None:
    rule = OneOf((3.0, Pick(["often"])), (1.0, Pick(["seldom"])), (9.0, Pick([])), (0.0, Pick(["never"])))
    draw = Random(5).random
    seen = [rule.sample(draw) for _ in range(4000)]
    assert rule.count == 2
    assert set(seen) == {"often", "seldom"}
    # A share of 3/4 in 4,000 draws strays by 0.028 (four standard deviations) once in 16,000 seeds.
    assert abs(seen.count("often") / 4000 - 0.75) < 0.028


def test_weights_within_one_pick() -> None:
    draw = Random(6).random
    seen = [Pick(["a", "b", "c"], [1.0, 1.0, 8.0]).sample(draw) for _ in range(4000)]
    assert abs(seen.count("c") / 4000 - 0.8) < 0.026


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2))
def test_counts_add_and_multiply(first: int, second: int, third: int) -> None:
    a, b, c = (Pick(list(range(size))) for size in (first, second, third))
    assert evenly(a, b, c).count == first + second + third
    assert Each(lambda *parts: parts, a, b, c).count == first * second * third
    assert maybe(0.5, c).count == 1 + third
    assert maybe(0.0, a).count == 1


def test_the_grammar_is_as_large_as_promised() -> None:
    assert lemmas() >= 500
    assert count_derivations() >= 10**9
