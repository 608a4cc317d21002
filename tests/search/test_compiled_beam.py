"""The compiled bookkeeping of beam search has the results of `beam_search`."""

import random

import numpy as np
import pytest
import torch

compiled_beam = pytest.importorskip("transduce.search.compiled_beam")

from transduce.search.beam import Decoding, beam_search  # noqa: E402
from transduce.search.stepper import SearchProblem  # noqa: E402

VOCABULARY, BEGIN = 11, 1


class RandomState:
    """The sentence and the tokens of each row."""

    def __init__(self, sentences: torch.Tensor, tokens: torch.Tensor) -> None:
        self.sentences, self.tokens = sentences, tokens

    def pick(self, rows: torch.Tensor) -> "RandomState":
        return RandomState(self.sentences[rows], self.tokens[rows])


class RandomStepper:
    """Log-probabilities that are drawn from the sentence and the tokens of a row; some are −∞."""

    def start(self, source: torch.Tensor, _visible: torch.Tensor, _max_length: int) -> RandomState:
        return RandomState(source[:, 0], torch.zeros(len(source), 0, dtype=torch.long))

    def step(self, tokens: torch.Tensor, state: RandomState) -> tuple[torch.Tensor, RandomState]:
        written = torch.cat([state.tokens, tokens], 1)
        rows = []
        for sentence, row in zip(state.sentences.tolist(), written.tolist(), strict=True):
            logits = np.random.default_rng([sentence, *row]).normal(0, 2, VOCABULARY).astype(np.float32)
            logits[row[-1]] = -np.inf
            rows.append(torch.from_numpy(logits).log_softmax(-1))
        return torch.stack(rows).unsqueeze(1), RandomState(state.sentences, written)


@pytest.mark.parametrize("seed", range(60))
def test_the_results_are_those_of_the_search_in_torch(seed: int) -> None:
    draws = random.Random(seed)
    sentences = draws.randint(1, 6)
    end = draws.choice([BEGIN, 2, 5])
    source = torch.arange(sentences).unsqueeze(1) + 100 * seed
    bounds = torch.tensor([draws.randint(1, 9) for _ in range(sentences)])
    banned = draws.choice([(0,), (), (0, 3)])
    first = draws.choice([(), (end,), (end, 4)])
    problem = SearchProblem(source, torch.ones_like(source, dtype=torch.bool), bounds, BEGIN, end, banned, first)
    decoding = Decoding(
        beam=draws.choice([1, 2, 4, 7]),
        length_penalty=draws.choice([0, 0.6, 1.5]),
        margin=draws.choice([None, None, 0.5, 2.0]),
    )
    n_best = draws.choice([1, 1, 3, 8])
    expected, found = (beam_search(RandomStepper(), problem, decoding, n_best, compiled=each) for each in (False, True))
    assert [[each.tokens for each in best] for best in found] == [[each.tokens for each in best] for best in expected]
    for best, reference in zip(found, expected, strict=True):
        for hypothesis, exact in zip(best, reference, strict=True):
            assert hypothesis.score == pytest.approx(exact.score, abs=1e-5)
            assert hypothesis.log_probability == pytest.approx(exact.log_probability, abs=1e-5)
