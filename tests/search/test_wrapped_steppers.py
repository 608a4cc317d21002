"""Steppers around steppers (forced prefixes and ensembles), and forced scoring."""

import math
from collections.abc import Sequence

import pytest
import torch
from oracles import greedy, released_beam_search

from toys import BEGIN, END, PAD, Hashed, History, Table, assert_same, forced_score, subproblem, table_of, toy_problem
from transduce.search.beam import Decoding, beam_search
from transduce.search.cancellation import SearchStoppedError, StoppableStepper, stop_after
from transduce.search.greedy_and_sampling import Sampling, greedy_search, sample
from transduce.search.stepper import Stepper, forced_scores
from transduce.search.wrapped_steppers import Ensemble, ForcedPrefix, NoRepeatedNgrams

BOUNDS = [8, 5, 9, 3, 7]
PREFIXES = [[4, 4, 5], [3], [], [], [5, 3]]


def rectangle(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def with_prefix(table: Table, prefix: Sequence[int]) -> Table:
    """Returns the table with probability 0 for every token other than the prefix's at its place."""

    def look_up(histories: Sequence[History]) -> list[list[float]]:
        rows = table(histories)
        place = len(histories[0])
        if place >= len(prefix):
            return rows
        return [[x if token == prefix[place] else -math.inf for token, x in enumerate(row)] for row in rows]

    return look_up


@pytest.mark.parametrize("beam", [1, 2, 4])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_beam_under_forced_prefixes_is_the_released_codes_under_them(beam: int, seed: int) -> None:
    stepper, problem = Hashed(6, seed), toy_problem(BOUNDS, seed)
    prefixed = ForcedPrefix(stepper, rectangle(PREFIXES), PAD)
    results = beam_search(prefixed, problem, Decoding(beam=beam), n_best=beam)
    bare = beam_search(stepper, problem, Decoding(beam=beam), n_best=beam)
    for sentence, (bound, prefix) in enumerate(zip(BOUNDS, PREFIXES, strict=True)):
        table = with_prefix(table_of(stepper, problem, sentence), prefix)
        assert_same(results[sentence], released_beam_search(table, bound, beam, 0.6))
        assert all(hypothesis.tokens[: len(prefix)] == prefix for hypothesis in results[sentence])
        for tokens, log_probability, _ in results[sentence]:
            assert log_probability == pytest.approx(forced_score(stepper, problem, sentence, tokens), abs=1e-9)
        if not prefix:
            assert results[sentence] == bare[sentence]
    assert results != bare


def without_followers(table: Table, prefix: Sequence[int], excluded: int) -> Table:
    """Returns the table with probability 0 for one token directly after the prefix, if there is a prefix."""

    def look_up(histories: Sequence[History]) -> list[list[float]]:
        rows = table(histories)
        if not prefix or len(histories[0]) != len(prefix):
            return rows
        return [[-math.inf if token == excluded else x for token, x in enumerate(row)] for row in rows]

    return look_up


@pytest.mark.parametrize("excluded", [3, 4, 5])
def test_excluded_tokens_do_not_follow_a_prefix(excluded: int) -> None:
    """They stay possible at other places, and in sentences without a prefix."""
    stepper, problem = Hashed(6, 2), toy_problem(BOUNDS)
    may_follow = torch.arange(6) != excluded
    prefixed = ForcedPrefix(stepper, rectangle(PREFIXES), PAD, may_follow)
    results = beam_search(prefixed, problem, Decoding(beam=3), n_best=3)
    for sentence, (bound, prefix) in enumerate(zip(BOUNDS, PREFIXES, strict=True)):
        table = without_followers(table_of(stepper, problem, sentence), prefix, excluded)
        assert_same(results[sentence], released_beam_search(with_prefix(table, prefix), bound, 3, 0.6))
    assert results != beam_search(ForcedPrefix(stepper, rectangle(PREFIXES), PAD), problem, Decoding(beam=3), n_best=3)


def test_greedy_search_and_sampling_under_forced_prefixes_begin_with_them() -> None:
    stepper, problem = Hashed(6, seed=3), toy_problem(BOUNDS)
    prefixed = ForcedPrefix(stepper, rectangle(PREFIXES), PAD)
    for sentence, hypothesis in enumerate(greedy_search(prefixed, problem)):
        table = with_prefix(table_of(stepper, problem, sentence), PREFIXES[sentence])
        expected = greedy(table, BOUNDS[sentence])
        assert hypothesis.tokens == expected.tokens
        assert hypothesis.log_probability == pytest.approx(expected.log_probability, abs=1e-9)
    draws = torch.rand(5, 9, generator=torch.Generator().manual_seed(1))
    for hypothesis, prefix in zip(sample(prefixed, problem, Sampling(temperature=2.0), draws), PREFIXES, strict=True):
        assert hypothesis.tokens[: len(prefix)] == prefix


@pytest.mark.parametrize("blocks", [[6], [2, 4], [1] * 6], ids=str)
def test_several_tokens_at_once_under_a_prefix_equal_one_by_one(blocks: list[int]) -> None:
    stepper, problem = Hashed(6), subproblem(toy_problem(BOUNDS), [0, 1])
    prefixed = ForcedPrefix(stepper, torch.tensor([[4, 4, 5], [3, PAD, PAD]]), PAD)
    target_in = torch.tensor([[BEGIN, 4, 4, 5, 3, 3], [BEGIN, 3, 5, 5, 4, 3]])
    bare, _ = stepper.step(target_in, stepper.start(problem.source, problem.visible, 6))
    state, steps = prefixed.start(problem.source, problem.visible, 6), []
    for tokens in target_in.split(blocks, dim=1):
        step, state = prefixed.step(tokens, state)
        steps.append(step)
    log_probabilities = torch.cat(steps, dim=1)
    forced_places = {(0, 0): 4, (0, 1): 4, (0, 2): 5, (1, 0): 3}
    for row in range(2):
        for place in range(6):
            expected = bare[row, place].clone()
            if (token := forced_places.get((row, place))) is not None:
                expected[torch.arange(6) != token] = -math.inf
            assert torch.equal(log_probabilities[row, place], expected)


def mean_table(tables: Sequence[Table]) -> Table:
    """Returns the table of the mean probabilities, computed by hand."""

    def look_up(histories: Sequence[History]) -> list[list[float]]:
        members = [table(histories) for table in tables]
        return [
            [math.log(sum(map(math.exp, values)) / len(values)) for values in zip(*rows, strict=True)]
            for rows in zip(*members, strict=True)
        ]

    return look_up


@pytest.mark.parametrize("members", [2, 3])
def test_an_ensemble_searches_the_mean_of_its_members_probabilities(members: int) -> None:
    steppers: list[Stepper] = [Hashed(6, seed) for seed in range(1, members + 1)]
    problem = toy_problem(BOUNDS)
    results = beam_search(Ensemble(steppers), problem, Decoding(beam=3), n_best=3)
    for sentence, bound in enumerate(BOUNDS):
        table = mean_table([table_of(stepper, problem, sentence) for stepper in steppers])
        assert_same(results[sentence], released_beam_search(table, bound, 3, 0.6))
        best = results[sentence][0]
        assert best.log_probability == pytest.approx(forced_score(Ensemble(steppers), problem, sentence, best.tokens))


def test_an_ensemble_of_one_is_itself() -> None:
    stepper, problem = Hashed(6), toy_problem(BOUNDS)
    alone = beam_search(stepper, problem, Decoding(beam=3), n_best=3)
    group = beam_search(Ensemble([stepper]), problem, Decoding(beam=3), n_best=3)
    for hypotheses, expected in zip(group, alone, strict=True):
        assert_same(hypotheses, expected)


def test_prefixes_and_ensembles_nest() -> None:
    steppers: list[Stepper] = [Hashed(6, seed) for seed in (1, 2)]
    problem, prefixes = toy_problem(BOUNDS), rectangle(PREFIXES)
    outside = beam_search(ForcedPrefix(Ensemble(steppers), prefixes, PAD), problem, Decoding(beam=3), n_best=3)
    inside = Ensemble([ForcedPrefix(stepper, prefixes, PAD) for stepper in steppers])
    assert beam_search(inside, problem, Decoding(beam=3), n_best=3) == outside


def test_forced_scores_are_each_tokens_log_probability_and_0_at_padding() -> None:
    stepper, problem = Hashed(6), subproblem(toy_problem(BOUNDS), [0, 3])
    target_in, target_out = (
        torch.tensor([[BEGIN, 4, 5], [BEGIN, PAD, PAD]]),
        torch.tensor([[4, 5, END], [END, PAD, PAD]]),
    )
    scores = forced_scores(stepper, problem.source, problem.visible, target_in, target_out, PAD)
    first, second = (table_of(stepper, problem, sentence) for sentence in (0, 1))
    expected = [first([()])[0][4], first([(4,)])[0][5], first([(4, 5)])[0][END], second([()])[0][END], 0.0, 0.0]
    assert scores.flatten().tolist() == pytest.approx(expected, abs=1e-12)


def without_repeats(table: Table, size: int, exempt: int) -> Table:
    """Returns the table with probability 0 for tokens that end an n-gram of the history again, once `exempt` stand."""

    def look_up(histories: Sequence[History]) -> list[list[float]]:
        rows = []
        for history, row in zip(histories, table(histories), strict=True):
            ngrams = {history[place : place + size] for place in range(len(history) - size + 1)}
            last = history[len(history) - size + 1 :] if size > 1 else ()
            is_free = len(history) < exempt
            rows.append([x if is_free or (*last, token) not in ngrams else -math.inf for token, x in enumerate(row)])
        return rows

    return look_up


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("beam", [1, 3])
def test_no_ngram_stands_twice_after_the_prefix(size: int, beam: int) -> None:
    bounds, prefixes = [14, 9, 15, 3, 11], [[4, 4, 4, 4], [3], [], [], [5, 3]]
    stepper, problem = Hashed(6, 2, end=-4.0), toy_problem(bounds)
    exempt = torch.tensor(list(map(len, prefixes)))
    banned = ForcedPrefix(NoRepeatedNgrams(stepper, size, exempt), rectangle(prefixes), PAD)
    results = beam_search(banned, problem, Decoding(beam=beam), n_best=beam)
    free = beam_search(ForcedPrefix(stepper, rectangle(prefixes), PAD), problem, Decoding(beam=beam), n_best=beam)
    for sentence, (bound, prefix) in enumerate(zip(bounds, prefixes, strict=True)):
        table = without_repeats(table_of(stepper, problem, sentence), size, len(prefix))
        assert_same(results[sentence], released_beam_search(with_prefix(table, prefix), bound, beam, 0.6))
        for tokens, _, _ in results[sentence]:
            ngrams = [tuple(tokens[place : place + size]) for place in range(len(tokens) - size + 1)]
            new = ngrams[max(0, len(prefix) - size + 1) :]
            assert len(new) == len(set(new) - set(ngrams[: len(ngrams) - len(new)]))
    assert results != free
    for sentence, hypothesis in enumerate(greedy_search(banned, problem)):
        table = with_prefix(
            without_repeats(table_of(stepper, problem, sentence), size, len(prefixes[sentence])), prefixes[sentence]
        )
        assert hypothesis.tokens == greedy(table, bounds[sentence]).tokens


def test_several_tokens_at_once_under_the_ban_equal_one_by_one() -> None:
    stepper, problem = Hashed(6), subproblem(toy_problem(BOUNDS), [0, 1])
    target_in = torch.tensor([[BEGIN, 4, 5, 4, 5, 3], [BEGIN, 3, 3, 5, 4, 3]])
    banned = NoRepeatedNgrams(stepper, 2, torch.tensor([0, 0]))
    whole, _ = banned.step(target_in, banned.start(problem.source, problem.visible, 6))
    state, parts = banned.start(problem.source, problem.visible, 6), []
    for token in target_in.T:
        rows, state = banned.step(token.unsqueeze(1), state)
        parts.append(rows)
    assert torch.equal(whole, torch.cat(parts, 1))
    assert whole[0, 3].isneginf().nonzero().flatten().tolist() == [5]  # after 4 5 4: no second 4 5


class CountedCheck:
    """A check that stops the search when it is called for the n-th time."""

    def __init__(self, last: int) -> None:
        self.last, self.calls = last, 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls >= self.last:
            raise SearchStoppedError("nobody waits for the result")


@pytest.mark.parametrize("name", ["beam", "greedy", "sample"])
def test_every_search_stops_at_the_step_at_which_the_check_raises(name: str) -> None:
    searches = {
        "beam": lambda stepper, problem: beam_search(stepper, problem, Decoding(beam=3)),
        "greedy": greedy_search,
        "sample": lambda stepper, problem: sample(stepper, problem, Sampling(), torch.full((5, 9), 0.4)),
    }
    search, problem = searches[name], toy_problem(BOUNDS, 1)
    inner, never = Hashed(6, 1, end=-9.0), CountedCheck(100)  # no sentence ends before its bound
    assert search(StoppableStepper(inner, never), problem) == search(Hashed(6, 1, end=-9.0), problem)
    assert never.calls == 1 + max(BOUNDS)  # before the source is encoded, and before each step
    inner = Hashed(6, 1, end=-9.0)
    with pytest.raises(SearchStoppedError, match="nobody waits"):
        search(StoppableStepper(inner, CountedCheck(4)), problem)
    assert len(inner.shapes) == 2


def test_a_deadline_is_kept() -> None:
    check = stop_after(3600)
    check()
    with pytest.raises(SearchStoppedError, match="did not end within 1e-09 seconds"):
        stop_after(1e-9)()
    for seconds in (0, -1, math.nan):
        with pytest.raises(ValueError, match="give a number above 0"):
            stop_after(seconds)
