"""The searches over a real Transformer, whose state and caches a beam reorders, narrows and drops from."""

import copy

import pytest
import torch
from oracles import exhaustive, greedy, released_beam_search
from toys import PAD, assert_same, chosen, forced, small_model, table_of_model, toy_problem

from transduce.model import TransformerModel
from transduce.search import Decoding, Ensemble, ForcedPrefix, beam, beam_search, greedy_search

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
    found = beam_search(model, problem, Decoding(beam=beam), n_best=beam)
    for sentence, bound in enumerate(BOUNDS):
        table = table_of_model(model, problem, sentence)
        assert_same(found[sentence], released_beam_search(table, bound, beam, 0.6))


def test_the_100_best_are_those_of_exhaustive_search(model: TransformerModel) -> None:
    bounds = [4, 1, 3]
    problem = toy_problem(bounds)
    found = beam_search(model, problem, Decoding(beam=400), n_best=100)
    for sentence, bound in enumerate(bounds):
        assert_same(found[sentence], exhaustive(table_of_model(model, problem, sentence), bound, 0.6)[:100])


def test_greedy_search_is_the_walk_over_the_whole_model(model: TransformerModel) -> None:
    problem = toy_problem(BOUNDS)
    for sentence, found in enumerate(greedy_search(model, problem)):
        expected = greedy(table_of_model(model, problem, sentence), BOUNDS[sentence])
        assert found.tokens == expected.tokens
        assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-9)


def test_scores_in_float32_are_those_of_forced_scoring_in_any_company(model: TransformerModel) -> None:
    # Long enough for caches to grow, with beams that widen and narrow as sentences leave.
    bounds = [40, 12, 3, 25, 33]
    if model.max_positions is not None:
        bounds = [min(bound, model.max_positions) for bound in bounds]
    problem, single = toy_problem(bounds), copy.deepcopy(model).float()
    group = beam_search(single, problem, Decoding(beam=4), n_best=4)
    for sentence in range(len(bounds)):
        (alone,) = beam_search(single, chosen(problem, [sentence]), Decoding(beam=4), n_best=4)
        assert [each.tokens for each in alone] == [each.tokens for each in group[sentence]]
        for tokens, log_probability, score in group[sentence]:
            assert log_probability == pytest.approx(forced(single, problem, sentence, tokens), abs=1e-5)
            length = min(len(tokens) + 1, bounds[sentence])
            assert score == pytest.approx(log_probability / ((5 + length) / 6) ** 0.6, abs=1e-5)


def test_prefixes_and_ensembles_of_models(model: TransformerModel) -> None:
    problem, prefixes = toy_problem(BOUNDS), torch.tensor([[4, 4, 5], [3, 7, 0], [0] * 3, [0] * 3, [5, 3, 0]])
    stepper = ForcedPrefix(Ensemble([model, small_model(7)]), prefixes, PAD)
    found = beam_search(stepper, problem, Decoding(beam=3), n_best=3)
    for sentence, prefix in enumerate(prefixes.tolist()):
        wanted = [token for token in prefix if token != PAD]
        for tokens, log_probability, _ in found[sentence]:
            assert tokens[: len(wanted)] == wanted
            assert log_probability == pytest.approx(forced(stepper.inner, problem, sentence, tokens), abs=1e-9)


@pytest.mark.parametrize("look", [1, 3, 8])
def test_a_search_that_does_not_wait_for_its_device_finds_the_same(
    model: TransformerModel, look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where the rows stay a rectangle from look to look and nobody asks whose they are."""
    problem = toy_problem(BOUNDS)
    expected = beam_search(model, problem, Decoding(beam=3), n_best=3)
    monkeypatch.setattr("transduce.model.decoder_state.ASYNCHRONOUS", {"cpu"})
    monkeypatch.setitem(beam.CHECK_INTERVAL, "cpu", look)
    for sentence, found in enumerate(beam_search(model, problem, Decoding(beam=3), n_best=3)):
        assert_same(found, expected[sentence])
    expected = greedy_search(model, problem)
    for one, other in zip(greedy_search(model, problem), expected, strict=True):
        assert_same([one], [other])
