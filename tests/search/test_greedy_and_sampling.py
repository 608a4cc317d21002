"""Greedy search and sampling."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import greedy

from toys import BANNED, END, Hashed, Scripted, forced_score, subproblem, table_of, toy_problem
from transduce.search.beam import Decoding, beam_search
from transduce.search.greedy_and_sampling import Sampling, greedy_search, sample
from transduce.search.stepper import SearchProblem

NEARLY_ONE = 1 - 2**-53


def draws(problem: SearchProblem, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(len(problem.source), problem.max_length, generator=generator, dtype=torch.float64)


def repeated(problem: SearchProblem, times: int) -> SearchProblem:
    """Returns a problem with `times` copies of the first sentence."""
    return subproblem(problem, [0] * times)


def grid(times: int) -> torch.Tensor:
    """Returns one draw a row, evenly spaced."""
    return ((torch.arange(times, dtype=torch.float64) + 0.5) / times).unsqueeze(1)


@given(
    seed=st.integers(0, 2**20),
    end=st.sampled_from([-2.0, 0.0]),
    bounds=st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
def test_greedy_search_walks_along_the_most_probable_words(seed: int, end: float, bounds: list[int]) -> None:
    stepper, problem = Hashed(6, seed, end=end), toy_problem(bounds, seed)
    for sentence, hypothesis in enumerate(greedy_search(stepper, problem)):
        expected = greedy(table_of(stepper, problem, sentence), bounds[sentence])
        assert hypothesis.tokens == expected.tokens
        assert hypothesis.log_probability == pytest.approx(expected.log_probability, abs=1e-9)
        assert hypothesis.score == hypothesis.log_probability


def test_greedy_search_is_no_beam_of_one() -> None:
    # Greedy ends at once; a beam of 1 keeps "3" alive, whose score is better by its length.
    stepper = Scripted({(): [0, 0, 0.5, 0.48, 0.02], (3,): [0, 0, 0.99, 0.01, 0]}, [0, 0, 0.5, 0.5, 0])
    problem = toy_problem([9])
    assert greedy_search(stepper, problem)[0].tokens == []
    assert beam_search(stepper, problem, Decoding(beam=1, length_penalty=1.0))[0][0].tokens == [3]


def test_no_translation_is_empty_where_the_end_symbol_is_banned_first() -> None:
    stepper, problem = Hashed(6, end=8.0), toy_problem([9] * 50)._replace(banned_first=(END,))
    drawn = sample(stepper, problem, Sampling(), torch.rand(50, 9, generator=torch.Generator().manual_seed(1)))
    for hypothesis in (*greedy_search(stepper, problem), *drawn):
        assert hypothesis.tokens
    assert sum(len(hypothesis.tokens) == 1 for hypothesis in drawn) > 40  # the second token is the end symbol


def expected_distribution(row: list[float], sampling: Sampling) -> dict[int, float]:
    """Computes the distribution by hand: bans, temperature, top_k, top_p, normalisation."""
    weights = {token: math.exp(value / sampling.temperature) for token, value in enumerate(row) if token not in BANNED}
    ranked = sorted(weights, key=lambda token: -weights[token])[: sampling.top_k]
    total = sum(weights[token] for token in ranked)  # top_p counts the mass of the tokens that top_k leaves
    nucleus: dict[int, float] = {}
    for token in ranked:
        if sampling.top_p is not None and sum(nucleus.values()) >= sampling.top_p:
            break
        nucleus[token] = weights[token] / total
    return {token: weight / sum(nucleus.values()) for token, weight in nucleus.items()}


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.5),
        Sampling(temperature=3.0),
        Sampling(top_k=2),
        Sampling(top_k=50),
        Sampling(top_p=0.3),
        Sampling(top_p=0.6),
        Sampling(top_p=0.95),
        Sampling(top_p=1.0),
        Sampling(temperature=2.0, top_p=0.8),
        Sampling(temperature=2.0, top_k=3),
        Sampling(top_k=3, top_p=0.6),
        Sampling(temperature=2.0, top_k=3, top_p=0.7),
    ],
    ids=str,
)
def test_evenly_spaced_draws_give_each_token_its_share(sampling: Sampling) -> None:
    for seed in range(5):
        stepper, problem = Hashed(8, seed), toy_problem([1], seed)
        (row,) = table_of(stepper, problem, 0)([()])
        hypotheses = sample(stepper, repeated(problem, 1000), sampling, grid(1000))
        tokens = [hypothesis.tokens[0] if hypothesis.tokens else END for hypothesis in hypotheses]
        expected = expected_distribution(row, sampling)
        # A boundary between two tokens moves by less than one draw of the grid.
        for token in range(8):
            assert abs(tokens.count(token) - 1000 * expected.get(token, 0.0)) <= (1 if token in expected else 0)


def test_top_p_counts_the_mass_of_the_tokens_that_top_k_leaves() -> None:
    """Of 0.4 and 0.2, which top_k leaves, 0.4 is two thirds: enough for 0.6. It was once counted as 0.4 of the whole
    vocabulary, which left both."""
    stepper = Scripted({(): [0, 0, 0.1, 0.4, 0.2, 0.15, 0.15]}, [0, 0, 1, 0, 0, 0, 0])
    problem = repeated(toy_problem([1]), 100)
    drawn = [sample(stepper, problem, Sampling(top_k=2, top_p=top_p), grid(100)) for top_p in (0.6, 0.7)]
    tokens = [[hypothesis.tokens[0] for hypothesis in hypotheses] for hypotheses in drawn]
    assert set(tokens[0]) == {3}
    assert set(tokens[1]) == {3, 4}
    assert tokens[1].count(3) == pytest.approx(100 * 2 / 3, abs=1)


def p_value(counts: dict[tuple[int, ...], int], probabilities: dict[tuple[int, ...], float]) -> float:
    """Returns the p-value of Pearson's chi-square test; outcomes expected fewer than five times share a cell."""
    total = sum(counts.values())
    cells: dict[tuple[int, ...] | None, list[float]] = {}
    for outcome, probability in probabilities.items():
        cell = cells.setdefault(outcome if total * probability >= 5 else None, [0.0, 0.0])
        cell[0] += counts.get(outcome, 0)
        cell[1] += total * probability
    statistic = sum((observed - expected) ** 2 / expected for observed, expected in cells.values())
    freedom = torch.tensor((len(cells) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, torch.tensor(statistic / 2, dtype=torch.float64)))


def outcomes(stepper: Hashed, problem: SearchProblem, bound: int) -> dict[tuple[int, ...], float]:
    """Returns the probability of every translation of at most `bound` tokens, with the end symbol where it fits."""
    table = table_of(stepper, problem, 0)
    alive, finished = {(): 1.0}, {}
    for _ in range(bound):
        rows = dict(zip(alive, table(list(alive)), strict=True))
        shares = {history: expected_distribution(row, Sampling()) for history, row in rows.items()}
        finished |= {(*history, END): alive[history] * shares[history][END] for history in alive}
        alive = {
            (*history, token): alive[history] * share
            for history in alive
            for token, share in shares[history].items()
            if token != END
        }
    return finished | alive


def test_translations_are_sampled_as_often_as_the_model_says() -> None:
    """With a fresh seed, one false alarm in a million; the seeds are fixed. A temperature of 1.2 is detected."""
    stepper, problem = Hashed(6, seed=4, peak=1.0), toy_problem([3])
    probabilities = outcomes(stepper, problem, 3)
    assert len(probabilities) == 1 + 3 + 9 + 27
    copies = repeated(problem, 4000)
    figures = []
    for sampling in (Sampling(), Sampling(temperature=1.2)):
        counts: dict[tuple[int, ...], int] = {}
        for tokens, _, _ in sample(stepper, copies, sampling, draws(copies)):
            outcome = (*tokens, END)[:3]
            counts[outcome] = counts.get(outcome, 0) + 1
        assert counts.keys() <= probabilities.keys()
        figures.append(p_value(counts, probabilities))
    assert figures[0] > 1e-6
    assert figures[1] < 1e-6


@pytest.mark.parametrize("sampling", [Sampling(top_k=1), Sampling(temperature=1e-4), Sampling(top_p=1e-9)], ids=str)
def test_the_sharpest_sampling_is_greedy(sampling: Sampling) -> None:
    stepper, problem = Hashed(6, seed=2), toy_problem([7, 3, 9, 5, 8])
    assert sample(stepper, problem, sampling, draws(problem)) == greedy_search(stepper, problem)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_k=2), Sampling(top_p=0.7)], ids=str)
@pytest.mark.parametrize("draw", [0.0, NEARLY_ONE, float(torch.nextafter(torch.ones(()), torch.zeros(())))])
def test_the_smallest_and_the_largest_draw_give_an_allowed_token(sampling: Sampling, draw: float) -> None:
    for seed in range(20):
        stepper, problem = Hashed(6, seed, peak=6.0), toy_problem([1], seed)
        (row,) = table_of(stepper, problem, 0)([()])
        allowed = list(expected_distribution(row, sampling))
        for dtype in (torch.float64, torch.float32):
            # Rounded to float32 the largest draw may be 1 itself.
            (hypothesis,) = sample(stepper, problem, sampling, torch.tensor([[draw]], dtype=dtype))
            assert (hypothesis.tokens or [END])[0] in allowed
            if draw == 0.0:
                assert (hypothesis.tokens or [END])[0] == allowed[0]


def test_a_sample_does_not_depend_on_the_batch() -> None:
    stepper, problem = Hashed(6, seed=2), toy_problem([7, 3, 9, 5, 8])
    numbers, sampling = draws(problem), Sampling(temperature=1.5)
    group = sample(stepper, problem, sampling, numbers)
    assert len({tuple(hypothesis.tokens) for hypothesis in group}) > 1
    for order in ([3, 0], [4, 2, 1, 0, 3], [1]):
        shuffled = sample(stepper, subproblem(problem, order), sampling, numbers[order])
        assert shuffled == [group[place] for place in order]


def test_a_samples_figure_is_the_models_whatever_the_sampling() -> None:
    stepper, problem = Hashed(6, seed=2), toy_problem([7, 3, 9, 5, 8])
    hypotheses = sample(stepper, problem, Sampling(temperature=2.0, top_k=3), draws(problem))
    for sentence, (tokens, log_probability, score) in enumerate(hypotheses):
        assert log_probability == pytest.approx(forced_score(stepper, problem, sentence, tokens), abs=1e-9)
        assert score == log_probability


def test_sentences_that_have_ended_leave_the_batch() -> None:
    stepper, problem = Hashed(6, seed=5), toy_problem([2, 9, 4, 9, 1])
    greedy_search(stepper, problem)
    assert stepper.shapes[0] == (5, 5)
    assert all(batch == rows for batch, rows in stepper.shapes)
    assert stepper.shapes[1][0] <= 4


def test_a_tiny_temperature_draws_the_most_probable_token() -> None:
    problem = toy_problem([7, 4])
    sharpest = sample(Hashed(6, 3), problem, Sampling(temperature=1e-320), draws(problem))
    expected = greedy_search(Hashed(6, 3), problem)
    assert [hypothesis.tokens for hypothesis in sharpest] == [hypothesis.tokens for hypothesis in expected]
