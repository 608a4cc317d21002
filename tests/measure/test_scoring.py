"""Scores against an oracle that counts n-grams, published scores, sacreBLEU's other metrics, and refusals."""

import csv
import logging
import math
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.measure.metrics import METRICS
from transduce.measure.scoring import compare, scores


def ngrams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[at : at + order]) for at in range(len(words) - order + 1))


def papineni(outputs: list[str], references: list[list[str]], *, smooth: bool) -> float:
    """BLEU-4 from its paper, and mteval's smoothing: the i-th order without a match counts as 2^-i matches."""
    matches, totals, output_length, reference_length = [0] * 4, [0] * 4, 0, 0
    for line, *streams in zip(outputs, *references, strict=True):
        words, reference_words = line.split(), [stream.split() for stream in streams]
        output_length += len(words)
        reference_length += min((abs(len(reference) - len(words)), len(reference)) for reference in reference_words)[1]
        for order in range(1, 5):
            most: Counter[tuple[str, ...]] = Counter()
            for reference in reference_words:
                most |= ngrams(reference, order)
            matches[order - 1] += (ngrams(words, order) & most).total()
            totals[order - 1] += ngrams(words, order).total()
    if not any(matches) or 0 in totals:
        return 0.0
    missing, logarithms = 0, []
    for match, total in zip(matches, totals, strict=True):
        missing += match == 0
        if match == 0 and not smooth:
            return 0.0
        logarithms.append(math.log((match or 0.5**missing) / total))
    return 100 * math.exp(min(0.0, 1 - reference_length / output_length) + sum(logarithms) / 4)


lines = st.lists(st.lists(st.sampled_from("abc"), max_size=9).map(" ".join), min_size=5, max_size=5)


@given(lines, lines, lines)
def test_bleu_equals_the_oracle(outputs, first, second):
    outputs = [*outputs, "a b c a"]  # So that four-grams exist; BLEU without any is not defined.
    references = [[*first, "b c a b b"], [*second, "a a"]]
    measured = scores(outputs, references, ["bleu", "bleu-paper"], tokenize="none", language="de")
    assert measured["bleu"].score == pytest.approx(papineni(outputs, references, smooth=True), abs=1e-9)
    assert measured["bleu-paper"].score == pytest.approx(papineni(outputs, references, smooth=False), abs=1e-9)


def sentences(count: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices("abcdefgh", k=generator.randint(5, 12))) for _ in range(count)]


def spoiled(lines: list[str], share: float, seed: int) -> list[str]:
    """Replaces a share of the words by wrong ones."""
    generator = random.Random(seed)
    return [" ".join("x" if generator.random() < share else word for word in line.split()) for line in lines]


def test_long_text_equals_the_oracle_and_is_case_sensitive():
    reference = sentences(150, seed=1)
    output = [line if at % 3 else line.upper() for at, line in enumerate(spoiled(reference, 0.2, seed=2))]
    measured = scores(output, [reference], ["bleu", "bleu-lowercased-tokenised"], tokenize="none", language="de")
    assert measured["bleu"].score == pytest.approx(papineni(output, [reference], smooth=True), abs=1e-9)
    lowered = [line.lower() for line in output]
    expected = papineni(lowered, [reference], smooth=False)
    assert measured["bleu-lowercased-tokenised"].score == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_eight_systems_have_their_published_bleu():
    """To the last digit of the scores that mteval-v13a published, and of those of 13a on these files."""
    folder = Path(os.environ.get("TRANSDUCE_DATA", ""), "bleu-reference")
    if not folder.is_dir():
        pytest.skip("TRANSDUCE_DATA/bleu-reference is not there")
    texts = {file.stem: file.read_text(encoding="utf-8").split("\n")[:-1] for file in folder.glob("wmt17-en-de/*.txt")}
    table = (folder / "expected-wmt17-en-de.tsv").read_text(encoding="utf-8").split("\n")
    rows = list(csv.DictReader(table, delimiter="\t"))
    assert len(rows) == 8
    for row in rows:
        score = scores(texts[row["system"]], [texts["REFERENCE"]])["bleu"].score
        assert f"{score:.4f}" == row["bleu_13a_on_these_files"]
        assert round(score, 2) == float(row["mteval13a_published"])


def test_every_metric_is_full_on_equal_text_and_signs_itself():
    text = ["Ein Mann sieht einen alten Hund.", "Der Hund sieht ihn nicht an.", "Es ist spät."]
    names = [name for name in METRICS if name != "spbleu"]  # its model is a download
    measured = scores(text, [text, text[::-1]], names, language="de")
    assert {name: round(score.score, 9) for name, score in measured.items()} == {
        "bleu": 100, "chrf": 100, "ter": 0, "bleu-lowercased-tokenised": 100, "bleu-paper": 100,
    }  # fmt: skip
    assert all(score.signature.startswith("nrefs:2|") for score in measured.values())
    assert len({score.signature for score in measured.values()}) == len(names)
    assert "case:mixed" in measured["bleu"].signature
    assert "tok:13a" in measured["bleu"].signature
    assert "case:lc" in measured["bleu-lowercased-tokenised"].signature
    assert "tok:paper-de-compounds-split" in measured["bleu-paper"].signature
    assert "nc:6|nw:0" in measured["chrf"].signature
    assert "tok:tercom|norm:no|punct:yes" in measured["ter"].signature
    assert all((score.low, score.high) == (None, None) for score in measured.values())


def test_flat_lists_are_refused_with_what_to_write():
    with pytest.raises(TypeError, match=r"`references` is a list of str: give a list of lists, \[references\]"):
        scores(["a b"], ["a b"])
    with pytest.raises(TypeError, match=r"`metrics` is a str: give a list of names, \['bleu'\]"):
        scores(["a b"], [["a b"]], metrics="bleu")


def test_a_second_reference_can_only_help():
    reference, output = ["a b c d e f", "a a b b c c d"], ["a b c d x f", "d d c c b b a"]
    single = scores(output, [reference])["bleu"].score
    assert scores(output, [reference, output])["bleu"].score == pytest.approx(100) != single


def test_the_language_chooses_sacrebleus_tokeniser():
    assert "tok:zh" in scores(["一二三四五"], [["一二三四六"]], language="zh")["bleu"].signature


def test_bleu_paper_charges_an_output_for_low_quotes():
    reference = ["Er sagt „ja“ zu ihr."]

    def bleu(output: str) -> float:
        return scores([output], [reference], ["bleu-paper"], language="de")["bleu-paper"].score

    assert bleu('Er sagt "ja" zu ihr.') == pytest.approx(100)
    assert bleu(reference[0]) < 90


def test_an_interval_holds_the_score_and_repeats():
    reference = sentences(60, seed=3)
    output = spoiled(reference, 0.3, seed=4)
    first, again = (scores(output, [reference], ["bleu", "chrf"], bootstrap=200) for _ in range(2))
    assert first == again
    for score in first.values():
        assert score.low < score.score < score.high
        assert "bs:200|seed:12345" in score.signature
    assert first["bleu"].score == scores(output, [reference])["bleu"].score
    both = [reference, output[::-1]]
    assert scores(output, both, bootstrap=50)["bleu"].score == scores(output, both)["bleu"].score


def test_an_interval_ends_where_the_metric_ends():
    reference = sentences(200, seed=7)
    nearly = [f"{reference[0]} more", *reference[1:]]
    for output in (reference, nearly):
        for name, score in scores(output, [reference], ["bleu", "chrf", "ter"], bootstrap=200).items():
            assert 0 <= score.low <= score.score <= score.high
            assert name == "ter" or score.high <= max(100, score.score)
    worse = scores(["a b c d e f g h"] * 9, [["x"] * 9], ["ter"], bootstrap=20)["ter"]
    assert worse.high == worse.score == 800


def test_an_interval_narrows_with_more_sentences():
    def width(count: int) -> float:
        reference = sentences(count, seed=5)
        score = scores(spoiled(reference, 0.3, seed=6), [reference], bootstrap=200)["bleu"]
        return score.high - score.low

    # A quarter of the sentences, twice the width; chance may move that by a half either way.
    assert 1.3 < width(50) / width(200) < 3


def test_a_paired_test_tells_better_from_equal():
    reference = sentences(80, seed=7)
    baseline = spoiled(reference, 0.3, seed=8)
    rival, better = spoiled(reference, 0.3, seed=11), spoiled(reference, 0.1, seed=10)
    comparisons = compare([baseline, rival, better, baseline], [reference], ["bleu", "ter"], bootstrap=300)
    by_rival, by_better, by_itself = comparisons["bleu"].differences
    assert by_rival.p > 0.05
    assert by_better.p < 0.01
    assert by_better.delta == pytest.approx(by_better.score.score - comparisons["bleu"].baseline.score)
    assert by_better.delta > 10
    assert (by_itself.delta, by_itself.p) == (0, 1)
    assert comparisons["ter"].differences[1].delta < 0, "fewer edits are better"
    assert comparisons["bleu"].baseline == scores(baseline, [reference], bootstrap=300)["bleu"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"outputs": ["a", "b"], "references": [["a", "b"], ["a"]]}, r"2 lines but reference 2 has 1"),
        ({"outputs": [], "references": [[]]}, "no lines"),
        ({"references": []}, "no reference"),
        ({"metrics": ["blue"]}, "'blue' is unknown; did you mean `bleu`. .*chrf, ter, spbleu, .*bleu-paper"),
        ({"metrics": ["bleu-paper"]}, "'bleu-paper' tokenises and needs the language"),
        ({"metrics": ["bleu-lowercased-tokenised"]}, "needs the language"),
        ({"metrics": ["bleu-paper"], "language": "german"}, "`german` is not a code of .*; did you mean `de`"),
        ({"tokenize": "14a"}, "'14a' is unknown; sacreBLEU has none, zh, 13a"),
        ({"bootstrap": 1}, "bootstrap is 1"),
    ],
)  # fmt: skip
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        scores(**{"outputs": ["a"], "references": [["a"]], **arguments})


def test_compare_refuses_unequal_counts():
    with pytest.raises(ValueError, match="output 2 has 3 lines but reference 1 has 2"):
        compare([["a", "b"], ["a", "b", "c"]], [["a", "b"]])


def test_empty_lines_are_scored():
    measured = scores(["", "a b c d"], [["x", "a b c d"]], ["bleu", "chrf", "ter"])
    assert measured["bleu"].score == pytest.approx(100 * math.exp(1 - 5 / 4))
    assert scores(["", ""], [["a", "b"]])["bleu"].score == 0


def test_tokenised_text_is_remarked_on(caplog):
    text = ["Es ist spät ."] * 100
    with caplog.at_level(logging.WARNING):
        scores(text, [text], ["chrf"])
        scores(text, [text], tokenize="none")
        scores(text[1:], [text[1:]])
        assert not caplog.records
        scores(text, [text])
    assert [record.getMessage()[:46] for record in caplog.records] == ["warning: 100 lines of the output end in ' .', "]


def test_measuring_needs_no_torch():
    program = "import sys, transduce.measure; sys.exit('torch' in sys.modules or 'sacremoses' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("language", ["zh", "zh-CN", "ZH_tw"])
def test_a_language_of_a_region_is_cut_as_the_language(language):
    assert "tok:zh" in scores(["一只猫"], [["一只狗"]], language=language)["bleu"].signature
