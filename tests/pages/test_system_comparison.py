"""The comparison of two systems, beside counts by hand and sacreBLEU's own functions."""

import random

import pytest
import sacrebleu

from transduce.measure.scoring import compare
from transduce.pages.system_comparison import compare_systems

NAMES = "ant bee cat dog eel fox gnu hen ibis jay kite lark mole newt owl pig".split()


def texts(seed: int = 5, sentences: int = 40) -> tuple[list[str], list[str], list[str]]:
    """A reference of 0 to 65 words a line, and two outputs with words replaced, dropped and repeated."""
    random_numbers = random.Random(seed)
    weights = [2.0 ** -(place / 2) for place in range(len(NAMES))]
    reference, first, second = [], [], []
    for line in range(sentences):
        words = random_numbers.choices(NAMES, weights, k=line * 65 // (sentences - 1))
        reference.append(" ".join(words))
        for output, faults in ((first, 0.2), (second, 0.35)):
            changed = [
                random_numbers.choice([*NAMES, "yak", ""]) if random_numbers.random() < faults else word
                for word in words
            ]
            output.append(" ".join([*changed, "ant"]).replace("  ", " ").strip())
    return reference, first, second


REFERENCE, FIRST, SECOND = texts()


def matches_by_hand(output: list[str], ngram: list[str]) -> int:
    """How often the n-gram is in the output and in the reference of the same line."""
    total = 0
    for line, expected in zip(output, REFERENCE):
        total += min(occurrences(line.split(), ngram), occurrences(expected.split(), ngram))
    return total


def occurrences(words: list[str], ngram: list[str]) -> int:
    return sum(words[place : place + len(ngram)] == ngram for place in range(len(words)))


def test_scores_are_those_of_the_paired_test() -> None:
    comparison = compare_systems((FIRST, SECOND), REFERENCE, bootstrap=30)
    assert comparison.systems.scores == compare([FIRST, SECOND], [REFERENCE], ["bleu", "chrf"], bootstrap=30)
    words = [sum(len(line.split()) for line in text) for text in (FIRST, SECOND, REFERENCE)]
    assert (*comparison.systems.words, comparison.systems.reference_words) == tuple(words)
    assert comparison.systems.length_ratios == (words[0] / words[2], words[1] / words[2])


def test_each_bucket_of_lengths_has_the_scores_of_its_sentences() -> None:
    buckets = compare_systems((FIRST, SECOND), REFERENCE, bootstrap=2).systems.by_length
    assert [(each.low, each.high) for each in buckets] == [
        *((low, low + 9) for low in range(0, 60, 10)),
        (60, None),
    ]
    assert sum(each.sentences for each in buckets) == len(REFERENCE)
    for each in buckets:
        high = 1000 if each.high is None else each.high
        chosen = [place for place, line in enumerate(REFERENCE) if each.low <= len(line.split()) <= high]
        assert each.sentences == len(chosen)
        for number, output in enumerate((FIRST, SECOND)):
            part, expected = [output[place] for place in chosen], [[REFERENCE[place] for place in chosen]]
            assert each.bleu[number] == pytest.approx(sacrebleu.corpus_bleu(part, expected, force=True).score)
            assert each.chrf[number] == pytest.approx(sacrebleu.corpus_chrf(part, expected).score)


@pytest.mark.parametrize("train", [None, ["ant bee ant", "ant ant ant cat", *["dog"] * 12, *["eel"] * 150]])
def test_f1_by_frequency_counts_words_sentence_by_sentence(train: list[str] | None) -> None:
    buckets = compare_systems((FIRST, SECOND), REFERENCE, train=train, bootstrap=2).systems.by_frequency
    counted = " ".join(REFERENCE if train is None else train).split()
    assert {each.low for each in buckets} <= {0, 1, 2, 5, 10, 100, 1000}
    for low, high, words, f1 in buckets:
        names = [name for name in [*NAMES, "yak"] if low <= counted.count(name) <= (10**9 if high is None else high)]
        in_reference = sum(" ".join(REFERENCE).split().count(name) for name in names)
        assert words == in_reference > 0
        for number, output in enumerate((FIRST, SECOND)):
            in_output = sum(" ".join(output).split().count(name) for name in names)
            matched = sum(matches_by_hand(output, [name]) for name in names)
            precision, recall = matched / in_output, matched / in_reference
            assert f1[number] == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    assert sum(each.words for each in buckets) == len(" ".join(REFERENCE).split())


def test_ngrams_are_ranked_by_their_odds() -> None:
    sides = compare_systems((FIRST, SECOND), REFERENCE, bootstrap=2, top=10_000).ngrams
    listed = {ngram for side in sides for ngram, *_ in side}
    every = {
        " ".join(words[start : start + size])
        for words in map(str.split, REFERENCE)
        for size in (1, 2, 3, 4)
        for start in range(len(words) - size + 1)
    }
    differing = {
        ngram for ngram in every if matches_by_hand(FIRST, ngram.split()) != matches_by_hand(SECOND, ngram.split())
    }
    assert listed == differing
    for better, side in enumerate(sides):
        for ngram, total, matches, odds in side:
            assert total == sum(occurrences(line.split(), ngram.split()) for line in REFERENCE)
            assert matches == tuple(matches_by_hand(output, ngram.split()) for output in (FIRST, SECOND))
            won, lost = matches[better], matches[1 - better]
            assert won > lost
            odds_of = [(count + 1) / (total - count + 1) for count in (won, lost)]
            assert odds == pytest.approx(odds_of[0] / odds_of[1])
        assert [each.odds for each in side] == sorted((each.odds for each in side), reverse=True)


def test_sentences_that_differ_most_come_first() -> None:
    better, worse = compare_systems((FIRST, SECOND), REFERENCE, bootstrap=2, top=1000).sentences
    chrf = [
        tuple(sacrebleu.sentence_chrf(output, [expected]).score for output in pair)
        for *pair, expected in zip(FIRST, SECOND, REFERENCE)
    ]
    for side, sign in ((better, 1), (worse, -1)):
        lines = [line for line, (a, b) in enumerate(chrf, start=1) if sign * (a - b) > 0]
        assert sorted(each.line for each in side) == lines
        assert all(each.chrf == pytest.approx(chrf[each.line - 1]) for each in side)
        gaps = [sign * (each.chrf[0] - each.chrf[1]) for each in side]
        assert gaps == sorted(gaps, reverse=True)


def test_no_list_is_longer_than_top() -> None:
    comparison = compare_systems((FIRST, SECOND), REFERENCE, bootstrap=2, top=3)
    assert [len(side) for side in (*comparison.ngrams, *comparison.sentences)] == [3, 3, 3, 3]


def test_equal_outputs_differ_in_nothing() -> None:
    comparison = compare_systems((FIRST, FIRST), REFERENCE, bootstrap=5)
    assert comparison.ngrams == comparison.sentences == ((), ())
    assert [each.differences[0].p for each in comparison.systems.scores.values()] == [1, 1]


def test_words_of_chinese_are_characters() -> None:
    comparison = compare_systems((["我有一只猫"], ["我有猫"]), ["我有一只猫"], language="zh", bootstrap=2)
    assert (comparison.systems.words, comparison.systems.reference_words) == ((5, 3), 5)
    assert "tok:zh" in comparison.systems.scores["bleu"].baseline.signature


def test_a_reference_without_words_has_no_ratio() -> None:
    comparison = compare_systems(([""], ["a"]), [""], bootstrap=2)
    assert all(ratio != ratio for ratio in comparison.systems.length_ratios)
    assert comparison.systems.by_frequency == ()
