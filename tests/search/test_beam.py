"""Beam search: a wide beam equals exhaustive search, a narrow beam equals the released code's search."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import exhaustive, released_beam_search

from toys import BEGIN, END, PAD, Hashed, Scripted, assert_same, forced_score, subproblem, table_of, toy_problem
from transduce.search import beam as beam_module
from transduce.search.beam import Decoding, beam_search, length_penalty
from transduce.search.stepper import top_k

ALPHAS = [0.0, 0.6, 1.0]


def test_the_length_penalty_is_gnmts_with_the_end_symbol_counted() -> None:
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == pytest.approx(2.0)
    assert length_penalty(7, 0.6) == pytest.approx(1.5157165665)
    assert length_penalty(50, 0.0) == 1.0
    tensor = length_penalty(torch.tensor([1, 7, 19]), 0.6)
    assert torch.as_tensor(tensor).tolist() == pytest.approx([1.0, 1.5157165665, 4**0.6])


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("end", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize(("vocabulary", "bounds"), [(6, [5, 3, 5, 4]), (7, [4, 5, 1]), (5, [6, 6, 2])])
def test_the_100_best_of_a_wide_beam_are_those_of_exhaustive_search(
    alpha: float, end: float, vocabulary: int, bounds: list[int]
) -> None:
    stepper, problem = Hashed(vocabulary, seed=7, end=end), toy_problem(bounds)
    results = beam_search(stepper, problem, Decoding(beam=700, length_penalty=alpha), n_best=100)
    for sentence, bound in enumerate(bounds):
        expected = exhaustive(table_of(stepper, problem, sentence), bound, alpha)[:100]
        assert len(expected) == min(100, sum((vocabulary - 3) ** length for length in range(bound)))
        assert_same(results[sentence], expected)


@pytest.mark.parametrize("beam", [2, 100])
def test_tokens_that_are_banned_first_may_follow(beam: int) -> None:
    """The end symbol is most probable everywhere; of 7 translations within 3 tokens all but the empty one remain."""
    stepper, problem = Hashed(5, seed=7, end=4.0), toy_problem([3, 3])._replace(banned_first=(END,))
    for sentence, best in enumerate(beam_search(stepper, problem, Decoding(beam=beam), n_best=beam)):
        expected = [found for found in exhaustive(table_of(stepper, problem, sentence), 3, 0.6) if found.tokens]
        assert len(expected) == 2 + 4
        assert_same(best, expected[:beam])


@given(
    seed=st.integers(0, 2**20),
    vocabulary=st.integers(4, 6),
    alpha=st.sampled_from(ALPHAS),
    peak=st.sampled_from([0.5, 1.5, 3.0]),
    bounds=st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_the_best_of_a_wide_beam_are_those_of_exhaustive_search_whatever_the_model(
    seed: int, vocabulary: int, alpha: float, peak: float, bounds: list[int]
) -> None:
    stepper, problem = Hashed(vocabulary, seed, peak), toy_problem(bounds, seed)
    results = beam_search(stepper, problem, Decoding(beam=200, length_penalty=alpha), n_best=100)
    for sentence, bound in enumerate(bounds):
        assert_same(results[sentence], exhaustive(table_of(stepper, problem, sentence), bound, alpha)[:100])


@given(
    seed=st.integers(0, 2**20),
    vocabulary=st.integers(4, 6),
    beam=st.sampled_from([1, 2, 3, 4]),
    alpha=st.sampled_from(ALPHAS),
    peak=st.sampled_from([0.5, 1.5, 3.0]),
    end=st.sampled_from([-8.0, -1.0, 0.0, 2.0]),
    bounds=st.lists(st.integers(1, 9), min_size=1, max_size=5),
)
def test_a_narrow_beam_finds_what_the_released_code_finds(
    seed: int, vocabulary: int, beam: int, alpha: float, peak: float, end: float, bounds: list[int]
) -> None:
    """Pruning and stopping by sentence change nothing of the released code's search, which has neither."""
    stepper, problem = Hashed(vocabulary, seed, peak, end), toy_problem(bounds, seed)
    results = beam_search(stepper, problem, Decoding(beam=beam, length_penalty=alpha), n_best=beam)
    for sentence, bound in enumerate(bounds):
        table = table_of(stepper, problem, sentence)
        assert_same(results[sentence], released_beam_search(table, bound, beam, alpha))


@given(
    seed=st.integers(0, 2**20),
    bounds=st.lists(st.integers(1, 8), min_size=2, max_size=6),
    data=st.data(),
)
def test_a_sentence_alone_is_as_in_any_company_and_order(seed: int, bounds: list[int], data: st.DataObject) -> None:
    stepper, problem = Hashed(6, seed), toy_problem(bounds, seed)
    decoding = Decoding(beam=3)
    order = data.draw(st.permutations(range(len(bounds))))
    company = data.draw(st.integers(1, len(bounds)))
    group = beam_search(stepper, problem, decoding, n_best=3)
    shuffled = beam_search(stepper, subproblem(problem, order[:company]), decoding, n_best=3)
    for place, sentence in enumerate(order[:company]):
        (alone,) = beam_search(stepper, subproblem(problem, [sentence]), decoding, n_best=3)
        assert group[sentence] == shuffled[place] == alone


@pytest.mark.parametrize("beam", [1, 4])
def test_a_translations_figures_are_those_of_forced_scoring(beam: int) -> None:
    bounds = [8, 3, 6, 5]
    stepper, problem = Hashed(6, seed=3), toy_problem(bounds)
    for sentence, best in enumerate(beam_search(stepper, problem, Decoding(beam=beam), n_best=beam)):
        assert best
        for tokens, log_probability, score in best:
            assert log_probability == pytest.approx(forced_score(stepper, problem, sentence, tokens), abs=1e-9)
            length = min(len(tokens) + 1, bounds[sentence])
            assert score == pytest.approx(log_probability / ((5 + length) / 6) ** 0.6, abs=1e-9)


def test_at_the_bound_the_finished_are_returned_and_the_live_only_where_none_has() -> None:
    # An end that may come only after "3", at a probability that most of the live exceed.
    otherwise = [0, 0, 0, 0.7, 0.3]
    reluctant, never = Scripted({(3,): [0, 0, 0.01, 0.7, 0.29]}, otherwise), Scripted({}, otherwise)
    problem = toy_problem([4])
    (finished,) = beam_search(reluctant, problem, Decoding(beam=3, length_penalty=0.0), n_best=3)
    assert [hypothesis.tokens for hypothesis in finished] == [[3]]
    assert finished[0].log_probability == pytest.approx(math.log(0.7 * 0.01))
    (live,) = beam_search(never, problem, Decoding(beam=3, length_penalty=1.0), n_best=2)
    assert live[0].tokens == [3, 3, 3, 3]
    assert sorted(live[1].tokens) == [3, 3, 3, 4]
    assert live[0].log_probability == pytest.approx(4 * math.log(0.7))
    assert live[0].score == pytest.approx(4 * math.log(0.7) / (9 / 6))


def test_a_finished_hypothesis_that_is_overtaken_does_not_stop_the_search() -> None:
    # The empty translation is finished at once; "3" is better by its length, a long walk is best of all.
    script = {(): [0, 0, 0.3, 0.7, 0], (3,): [0, 0, 0.3, 0.7, 0], (3, 3): [0, 0, 0.01, 0.99, 0]}
    stepper, problem = Scripted(script, [0, 0, 0.99, 0.01, 0]), toy_problem([9])
    (best,) = beam_search(stepper, problem, Decoding(beam=1, length_penalty=1.0))
    assert best[0].tokens == [3, 3, 3]


def test_a_sentence_has_at_most_n_best_and_at_most_beam_hypotheses() -> None:
    stepper, problem = Hashed(6), toy_problem([6, 6])
    assert [len(best) for best in beam_search(stepper, problem, Decoding(beam=3), n_best=9)] == [3, 3]
    assert [len(best) for best in beam_search(stepper, problem, Decoding(beam=3))] == [1, 1]


def test_banned_tokens_are_never_written() -> None:
    stepper = Scripted({}, [0.4, 0.3, 0.1, 0.1, 0.1])
    (best,) = beam_search(stepper, toy_problem([4]), Decoding(beam=4), n_best=4)
    assert not {PAD, BEGIN} & {token for hypothesis in best for token in hypothesis.tokens}


def test_sentences_that_are_done_leave_and_only_what_lives_is_stepped() -> None:
    stepper, problem = Hashed(6, seed=5), toy_problem([2, 9, 4, 9])
    beam_search(stepper, problem, Decoding(beam=4))
    batches = [batch for batch, _ in stepper.shapes]
    assert batches == sorted(batches, reverse=True)
    assert batches[2] < 4
    assert any(rows < 4 * batch for batch, rows in stepper.shapes[2:])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_alone_is_the_first_of_several(alpha: float, seed: int) -> None:
    stepper, problem = Hashed(9, seed), toy_problem([12, 5, 9, 3, 12, 1], seed)
    decoding = Decoding(beam=4, length_penalty=alpha)
    several = beam_search(stepper, problem, decoding, n_best=4)
    for n_best in (1, 2, 3):
        assert beam_search(stepper, problem, decoding, n_best=n_best) == [best[:n_best] for best in several]


def test_one_translation_steps_fewer_rows_than_four() -> None:
    steps = []
    for n_best in (1, 4):
        stepper = Hashed(9, seed=2, end=1.0)
        beam_search(stepper, toy_problem([30] * 8), Decoding(), n_best=n_best)
        steps.append(sum(rows for _, rows in stepper.shapes))
    assert steps[0] < steps[1]


@pytest.mark.parametrize("interval", [2, 3, 100])
@pytest.mark.parametrize("n_best", [1, 4])
def test_rare_checks_for_done_sentences_find_the_same(
    interval: int, n_best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper, problem = Hashed(9, seed=3), toy_problem([12, 5, 9, 3, 12, 1])
    expected = beam_search(stepper, problem, Decoding(), n_best)
    monkeypatch.setitem(beam_module.CHECK_INTERVAL, "cpu", interval)
    assert beam_search(stepper, problem, Decoding(), n_best) == expected


@pytest.mark.parametrize(("columns", "k"), [(1, 1), (5, 8), (320, 8), (1000, 8), (10_001, 10), (2048, 1)])
def test_top_k_equals_torchs(columns: int, k: int) -> None:
    values = torch.rand(6, columns, generator=torch.Generator().manual_seed(columns))
    values[2] = -math.inf
    values[2, columns // 2] = 0.5
    best, chosen = top_k(values, k)
    expected = values.topk(min(k, columns)).values
    assert torch.equal(best, expected)
    assert torch.equal(values.gather(1, chosen), expected)


def test_a_margin_drops_hypotheses_far_behind_and_keeps_the_n_best() -> None:
    problem, rows, best = toy_problem([30] * 8), [], []
    for margin in (None, 100.0, 1.0, 1e-9):
        stepper = Hashed(9, seed=2)
        best.append(beam_search(stepper, problem, Decoding(margin=margin)))
        rows.append(sum(count for _, count in stepper.shapes))
    assert best[0] == best[1]
    assert rows[0] == rows[1] > rows[2] > rows[3]
    assert all(len(hypotheses) == 1 for hypotheses in best[3])
    several = beam_search(Hashed(9, seed=2), problem, Decoding(margin=1.0), n_best=4)
    assert all(len(hypotheses) == 4 for hypotheses in several)


@pytest.mark.parametrize(
    ("best", "n_best", "stay"), [(3, 1, [3, 4]), (END, 1, [3]), (END, 2, [3, 4]), (3, 3, [3, 4, 5])]
)
def test_a_margin_is_counted_from_the_n_th_best(best: int, n_best: int, stay: list[int]) -> None:
    """In the first step one hypothesis is best, live or finished; the next are 0.9 and 1.1 nats behind it."""
    weights = {token: math.exp(-behind) for token, behind in zip([best, *sorted({3, 4, 5} - {best})], [0, 0.9, 1.1, 8])}
    first = [weights.get(token, 0.0) / sum(weights.values()) for token in range(6)]
    stepper = Scripted({(): first}, [0, 0, 1, 0, 0, 0])
    beam_search(stepper, toy_problem([30]), Decoding(beam=3, length_penalty=1.0, margin=1.0), n_best)
    assert stepper.stepped[:2] == [[()], [(token,) for token in stay]]
