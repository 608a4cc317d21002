"""Choices: counts agree with enumerations, samples with weights."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from transduce.embedded import count_derivations
from transduce.embedded.choices import Choice, Combine, OneOf, Pick, evenly, maybe
from transduce.embedded.grammar import (
    Nominal,
    Setting,
    clause,
    determination,
    direction,
    phrase_around,
    possessor,
    time,
)
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
    TIMES,
    VERBS,
    find_entry,
)

EVERY = Pairs("every")


def trees_of(depth: int) -> Choice[object]:
    """Returns a leaf of two kinds, or a pair of smaller trees: a grammar small enough to enumerate."""
    leaf = Pick(["oak", "elm"])
    if depth == 0:
        return leaf
    smaller = trees_of(depth - 1)
    return OneOf((1.0, leaf), (2.0, Combine(lambda left, right: (left, right), smaller, smaller)))


def test_count_of_a_recursive_rule_is_the_number_of_its_derivations() -> None:
    counts = [trees_of(depth).count for depth in range(4)]
    assert counts == [2, 2 + 2 * 2, 2 + 6 * 6, 2 + 38 * 38]
    listed = list(trees_of(3).derivations())
    assert len(listed) == len(set(listed)) == 1446


def test_count_of_a_grammar_rule_is_the_number_of_its_derivations() -> None:
    door, student, rain = find_entry(NOUNS, "door"), find_entry(NOUNS, "student"), find_entry(VERBS, "rain")
    rules: list[Choice[object]] = [
        determination(student, "subject"),
        phrase_around(EVERY, student, Nominal("fixed")),
        phrase_around(EVERY, door, Nominal("object", depth=1)),
        possessor(EVERY, door),
        direction(EVERY),
        time(EVERY, "past"),
        clause(EVERY, rain, Setting(time_frame="past", infinitive=False), 0),
    ]
    for rule in rules:
        listed = list(rule.derivations())
        assert rule.count == len(listed) == len(set(listed)) > 10


def test_samples_reach_exactly_the_derivations() -> None:
    rule = trees_of(2)
    draw = Random(3).random
    assert {rule.sample(draw) for _ in range(3000)} == set(rule.derivations())


def test_weights_are_proportions_and_empty_or_weightless_options_are_never_sampled() -> None:
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
    assert Combine(lambda *parts: parts, a, b, c).count == first * second * third
    assert maybe(0.5, c).count == 1 + third
    assert maybe(0.0, a).count == 1


def test_size_of_lexicon_and_grammar() -> None:
    tables = (ADJECTIVES, ADVERBS, ATTRIBUTES, CONJUNCTIONS, DETERMINERS, MODALS, NAMES, NOUNS, NUMERALS, TIMES, VERBS)
    assert sum(len({(entry.english, getattr(entry, "german", None)) for entry in table}) for table in tables) >= 500
    assert count_derivations() >= 10**9
