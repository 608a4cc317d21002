"""The searches that a compiled stepper takes several steps at a time: the results of the searches in torch."""

import copy
import random

import pytest
import torch

from toys import END, small_model, toy_problem

compiled_search = pytest.importorskip("transduce.search.compiled_search")

from transduce.model.compiled.products import has_int8  # noqa: E402
from transduce.model.compiled.stepper import CompiledStepper  # noqa: E402
from transduce.model.transformer import TransformerModel  # noqa: E402
from transduce.search.beam import Decoding, Hypothesis, beam_search  # noqa: E402
from transduce.search.cancellation import SearchStoppedError, StoppableStepper  # noqa: E402
from transduce.search.greedy_and_sampling import greedy_search  # noqa: E402
from transduce.search.stepper import SearchProblem  # noqa: E402

pytestmark = pytest.mark.no_shape_checks


@pytest.fixture(params=[{}, {"norm": "pre"}], ids=["post-norm", "pre-norm"], scope="module")
def model(request: pytest.FixtureRequest) -> TransformerModel:
    return copy.deepcopy(small_model(3, **request.param)).float().requires_grad_(False)


@pytest.fixture(scope="module")
def stepper(model: TransformerModel) -> CompiledStepper:
    return CompiledStepper(model, int8=False)


def long_problem(seed: int) -> SearchProblem:
    """Returns a problem whose caches fill up several times, and whose sentences end one after another."""
    draws = random.Random(seed)
    problem = toy_problem([draws.randint(1, 70) for _ in range(draws.randint(1, 7))])
    return problem._replace(banned_first=draws.choice([(), (END,), (END, 4)]))


def assert_near(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    for hypothesis, exact in zip(found, expected, strict=True):
        assert hypothesis.log_probability == pytest.approx(exact.log_probability, abs=1e-4)
        assert hypothesis.score == pytest.approx(exact.score, abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_search_has_the_results_of_torch(model: TransformerModel, stepper: CompiledStepper, seed: int) -> None:
    decoding = Decoding(beam=random.Random(seed).choice([1, 2, 5]), margin=[None, 3.0][seed % 2])
    problem = long_problem(seed)
    found = beam_search(stepper, problem, decoding, n_best=3, compiled=True)
    for best, expected in zip(found, beam_search(model, problem, decoding, n_best=3), strict=True):
        assert_near(best, expected)


@pytest.mark.parametrize("seed", range(8))
def test_a_greedy_search_has_the_results_of_torch(model: TransformerModel, stepper: CompiledStepper, seed: int) -> None:
    problem = long_problem(seed)
    assert_near(greedy_search(stepper, problem, compiled=True), greedy_search(model, problem))


class Wrapped:
    """A stepper around a compiled one, which is searched step by step."""

    def __init__(self, inner: CompiledStepper) -> None:
        self.start, self.step = inner.start, inner.step


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
def test_the_best_tokens_are_those_of_all_log_probabilities(model: TransformerModel, int8: bool) -> None:
    """Bit by bit: several steps a call choose what is chosen among the log-probabilities of a step."""
    if int8 and not has_int8():
        pytest.skip("this processor has no products in int8")
    stepper = CompiledStepper(model, int8=int8)
    for seed in range(6):
        problem, decoding = long_problem(seed), Decoding(beam=3)
        whole, by_steps = (beam_search(each, problem, decoding, compiled=True) for each in (stepper, Wrapped(stepper)))
        assert whole == by_steps
        for found, expected in zip(
            greedy_search(stepper, problem, compiled=True), greedy_search(Wrapped(stepper), problem), strict=True
        ):
            assert found.tokens == expected.tokens
            assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-4)


@pytest.mark.parametrize("steps", [1, 3, 100])
def test_results_do_not_depend_on_the_steps_of_a_call(
    stepper: CompiledStepper, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, decoding = long_problem(5), Decoding(beam=4)
    expected = beam_search(stepper, problem, decoding, compiled=True)
    monkeypatch.setattr(compiled_search, "MOST_STEPS", steps)
    monkeypatch.setattr(compiled_search, "SECONDS", 10.0)
    assert beam_search(stepper, problem, decoding, compiled=True) == expected


def test_a_search_stops_between_two_calls(stepper: CompiledStepper, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def check() -> None:
        calls.append(None)
        if len(calls) == 5:
            raise SearchStoppedError("nobody waits for the result")

    monkeypatch.setattr(compiled_search, "MOST_STEPS", 1)
    for search in (
        lambda: beam_search(StoppableStepper(stepper, check), toy_problem([40, 40]), Decoding(), compiled=True),
        lambda: greedy_search(StoppableStepper(stepper, check), toy_problem([40, 40]), compiled=True),
    ):
        calls.clear()
        with pytest.raises(SearchStoppedError, match="nobody waits"), torch.inference_mode():
            search()
        assert len(calls) == 5
