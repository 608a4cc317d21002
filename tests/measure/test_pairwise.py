"""chrF of texts against each other, compared with sacreBLEU's."""

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from transduce.measure.pairwise import pairwise_chrf

TEXTS = [
    "ein Mann steht da .",
    "Ein Mann, der dort steht.",
    "",
    "a",
    "ein  Mann\tsteht da .",
    "ganz anders",
    "aaa aaaa",
]


def test_each_pair_has_the_chrf_of_sacrebleu() -> None:
    expected = [[CHRF().sentence_score(output, [reference]).score for reference in TEXTS] for output in TEXTS]
    assert pairwise_chrf(TEXTS) == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize("texts", [["", ""], ["x"], [" ", "y"]])
def test_texts_without_ngrams_score_nothing(texts: list[str]) -> None:
    expected = [[CHRF().sentence_score(output, [reference]).score for reference in texts] for output in texts]
    assert pairwise_chrf(texts) == pytest.approx(np.array(expected), abs=1e-9)
