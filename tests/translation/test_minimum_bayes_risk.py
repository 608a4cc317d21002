"""Minimum Bayes risk decoding: the candidate that is most like all candidates."""

import pytest
from sacrebleu.metrics.chrf import CHRF

from transduce.search import Sampling
from transduce.translation.minimum_bayes_risk import MinimumBayesRisk, _seed_of
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

LINES = ["cat dog owl", "", "the owl saw a mole"]


@pytest.fixture(scope="module")
def translator(fluent):
    return Translator.load(fluent)


def expected(candidates):
    """The expected chrF of each text of `candidates`, by sacreBLEU."""
    scorer = CHRF()
    return [
        sum(scorer.sentence_score(one, [other]).score for other in candidates) / len(candidates) for one in candidates
    ]


def test_the_best_of_the_n_best_by_expected_chrf(translator):
    chosen = MinimumBayesRisk(translator, 5).translate_lines(LINES)
    lists = translator.translate(LINES, beam=5, n_best=5)
    for (best,), candidates in zip(chosen, lists, strict=True):
        utilities = expected([candidate.text for candidate in candidates])
        assert best.score == pytest.approx(max(utilities))
        assert best.text == candidates[utilities.index(max(utilities))].text
    assert chosen[0][0].text in [candidate.text for candidate in lists[0]]


def test_the_best_of_samples_that_differ_by_their_seeds(translator):
    method = SearchMethod(translator.decoding, sampling=Sampling(temperature=1.5), seed=7)
    chosen = MinimumBayesRisk(translator, 6).translate_lines(LINES, method, lines_before=3)
    seeds = [_seed_of(7, number) for number in range(6)]
    assert not {_seed_of(8, number) for number in range(6)} & set(seeds)
    samples = [translator.translate_lines(LINES, method._replace(seed=seed), lines_before=3) for seed in seeds]
    assert len({sample[2][0].text for sample in samples}) > 2
    for place in range(len(LINES)):
        candidates = [sample[place][0].text for sample in samples]
        utilities = expected(candidates)
        assert chosen[place][0].text == candidates[utilities.index(max(utilities))]


def test_the_command_and_what_it_refuses(fluent, tmp_path, command, translator):
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    code, out, error = command("translate", fluent, tmp_path / "in.txt", "--mbr", 5)
    assert code == 0, error
    assert out.splitlines() == [best.text for (best,) in MinimumBayesRisk(translator, 5).translate_lines(LINES)]
    for options, message in (
        (["--greedy"], "leave --greedy out"),
        (["--n-best", 2], "leave --n-best out"),
        (["--glossary", tmp_path / "in.txt"], "--glossary"),
        (["--engine", "local", "--out", tmp_path / "o"], "--mbr 5: it is not for --engine"),
    ):
        code, _, error = command("translate", fluent, tmp_path / "in.txt", "--mbr", 5, *options)
        assert (code, message in error) == (2, True), error
    assert command("translate", fluent, tmp_path / "in.txt", "--mbr", 1)[0] == 2
    assert command("translate", fluent, tmp_path / "in.txt", "--mbr", 10**10, "--sample")[0] == 2
    with pytest.raises(ValueError, match=r"--mbr 1001: give at most 1,000"):
        MinimumBayesRisk(translator, 1001)
    with pytest.raises(ValueError, match="--mbr 1: one candidate leaves no choice"):
        MinimumBayesRisk(translator, 1)
