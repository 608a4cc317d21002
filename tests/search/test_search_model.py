"""The searches over a Transformer, whose state and caches a beam search reorders and drops rows from."""

import copy

import pytest
import torch
from oracles import exhaustive, greedy, released_beam_search

from toys import PAD, assert_same, forced_score, small_model, subproblem, table_of_model, toy_problem
from transduce.model.transformer import TransformerModel
from transduce.search import beam
from transduce.search.beam import Decoding, beam_search
from transduce.search.greedy_and_sampling import greedy_search
from transduce.search.wrapped_steppers import Ensemble, ForcedPrefix

BOUNDS = [9, 4, 7, 2, 8]
CHANGES: list[dict[str, object]] = [
    {},
    {"norm": "pre", "positions": {"kind": "learned", "max_positions": 9}},
    {"first_input": "zeros", "positions": {"kind": "sinusoidal", "layout": "halves"}},
]


@pytest.fixture(params=range(len(CHANGES)), scope="module")
def model(request: pytest.FixtureRequest) -> TransformerModel:
    return small_model(request.param + 1, **CHANGES[request.param])


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_beam_search_is_the_released_codes_over_the_whole_model(model: TransformerModel, beam: int) -> None:
    problem = toy_problem(BOUNDS)
    results = beam_search(model, problem, Decoding(beam=beam), n_best=beam)
    for sentence, bound in enumerate(BOUNDS):
        table = table_of_model(model, problem, sentence)
        assert_same(results[sentence], released_beam_search(table, bound, beam, 0.6))


def test_the_100_best_are_those_of_exhaustive_search(model: TransformerModel) -> None:
    bounds = [4, 1, 3]
    problem = toy_problem(bounds)
    results = beam_search(model, problem, Decoding(beam=400), n_best=100)
    for sentence, bound in enumerate(bounds):
        assert_same(results[sentence], exhaustive(table_of_model(model, problem, sentence), bound, 0.6)[:100])


def test_greedy_search_is_the_walk_over_the_whole_model(model: TransformerModel) -> None:
    problem = toy_problem(BOUNDS)
    for sentence, hypothesis in enumerate(greedy_search(model, problem)):
        expected = greedy(table_of_model(model, problem, sentence), BOUNDS[sentence])
        assert hypothesis.tokens == expected.tokens
        assert hypothesis.log_probability == pytest.approx(expected.log_probability, abs=1e-9)


def test_scores_in_float32_are_those_of_forced_scoring_in_any_company(model: TransformerModel) -> None:
    # Long enough for caches to grow, while the number of rows changes and sentences leave.
    bounds = [40, 12, 3, 25, 33]
    if model.max_positions is not None:
        bounds = [min(bound, model.max_positions) for bound in bounds]
    problem, single = toy_problem(bounds), copy.deepcopy(model).float()
    group = beam_search(single, problem, Decoding(beam=4), n_best=4)
    for sentence in range(len(bounds)):
        (alone,) = beam_search(single, subproblem(problem, [sentence]), Decoding(beam=4), n_best=4)
        assert [hypothesis.tokens for hypothesis in alone] == [hypothesis.tokens for hypothesis in group[sentence]]
        for tokens, log_probability, score in group[sentence]:
            assert log_probability == pytest.approx(forced_score(single, problem, sentence, tokens), abs=1e-5)
            length = min(len(tokens) + 1, bounds[sentence])
            assert score == pytest.approx(log_probability / ((5 + length) / 6) ** 0.6, abs=1e-5)


def test_prefixes_and_ensembles_of_models(model: TransformerModel) -> None:
    problem, prefixes = toy_problem(BOUNDS), torch.tensor([[4, 4, 5], [3, 7, 0], [0] * 3, [0] * 3, [5, 3, 0]])
    stepper = ForcedPrefix(Ensemble([model, small_model(7)]), prefixes, PAD)
    results = beam_search(stepper, problem, Decoding(beam=3), n_best=3)
    for sentence, prefix in enumerate(prefixes.tolist()):
        prefix_tokens = [token for token in prefix if token != PAD]
        for tokens, log_probability, _ in results[sentence]:
            assert tokens[: len(prefix_tokens)] == prefix_tokens
            assert log_probability == pytest.approx(forced_score(stepper.inner, problem, sentence, tokens), abs=1e-9)


@pytest.mark.parametrize("interval", [1, 3, 8])
def test_a_search_that_does_not_synchronise_finds_the_same(
    model: TransformerModel, interval: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where the rows stay a rectangle from check to check, because counting them would synchronise."""
    problem = toy_problem(BOUNDS)
    expected = beam_search(model, problem, Decoding(beam=3), n_best=3)
    monkeypatch.setattr("transduce.model.decoder_state.ASYNCHRONOUS", {"cpu"})
    monkeypatch.setitem(beam.CHECK_INTERVAL, "cpu", interval)
    for sentence, hypotheses in enumerate(beam_search(model, problem, Decoding(beam=3), n_best=3)):
        assert_same(hypotheses, expected[sentence])
    expected = greedy_search(model, problem)
    for hypothesis, reference in zip(greedy_search(model, problem), expected, strict=True):
        assert_same([hypothesis], [reference])
