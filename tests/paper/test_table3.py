"""Table 3: the paper's rows, their sizes at the small scale, and the verdicts on its orderings."""

import re

import pytest
from paper_fixtures import make_result

from transduce.paper import table3
from transduce.paper.experiment_scales import ExperimentOptions, scale_named
from transduce.paper.finished_runs import Record, add_record
from transduce.paper.system_presets import ABLATIONS, PRESETS
from transduce.paper.table3 import Ordering, VariationResult, compare_with_base, difference, divide_sizes, recipe_of
from transduce.run.train import TrainOptions

# Perplexity, BLEU, and millions of parameters where the paper prints them.
PAPER = """
    base 4.92 25.8 65; A1 5.29 24.9; A2 5.00 25.5; A3 4.91 25.8;
    A4 5.01 25.4; B1 5.16 25.1 58; B2 5.01 25.4 60; C1 6.11 23.7 36;
    C2 5.19 25.3 50; C3 4.88 25.5 80; C4 5.75 24.5 28; C5 4.66 26.0 168;
    C6 5.12 25.4 53; C7 4.75 26.2 90; D1 5.77 24.6; D2 4.95 25.5;
    D3 4.67 25.3; D4 5.47 25.7; E 4.92 25.7; big 4.33 26.4 213
"""


@pytest.fixture
def small(monkeypatch):
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
    return scale_named("small")


def test_the_rows_are_the_papers_twenty_the_released_one_and_ablations():
    assert len(table3.PUBLISHED) == 20
    assert set(table3.ROWS) == {*table3.PUBLISHED, "released-2017", *ABLATIONS}
    assert ABLATIONS.keys() == {"no-positions", "no-norm", "no-residual", "no-feed-forward", "attention-dropout"}
    printed = (row.split() for row in PAPER.split(";"))
    assert {
        name: (float(perplexity), float(bleu), int(more[0]) if more else None)
        for name, perplexity, bleu, *more in printed
    } == table3.PUBLISHED


@pytest.mark.parametrize("row", table3.ROWS)
def test_sizes_shrink_in_proportion(row, small):
    paper, mine = PRESETS[row]["model"], divide_sizes(PRESETS[row]["model"], small)
    assert mine["d_model"] * 4 == paper["d_model"]
    assert mine["feed_forward"]["d_ff"] * 4 == paper["feed_forward"]["d_ff"]
    assert mine["encoder_layers"] * 2 == paper["encoder_layers"]
    for side in ("mixer", "cross"):
        assert mine[side]["heads"] == paper[side]["heads"]
        assert [4 * mine[side][key] for key in ("d_k", "d_v")] == [paper[side][key] for key in ("d_k", "d_v")]
    same = ("dropout", "positions", "first_input", "initialisation", "norm_epsilon")
    assert {key: mine.get(key) for key in same} == {key: paper.get(key) for key in same}
    training = recipe_of(small, row, 2).training
    assert (training.label_smoothing, training.seed) == (PRESETS[row]["training"]["label_smoothing"], 2)
    assert training.average is None


def test_a_head_of_the_whole_width_costs_what_eight_cost(small):
    from transduce.model.translation_model import Vocabulary, flops

    sizes = Vocabulary(source=4000, target=4000)
    counts = {row: flops(recipe_of(small, row, 1).model, sizes) for row in ("base", "A1", "A2", "A3", "A4")}
    assert len(set(counts.values())) == 1


def rows(**values):
    """Returns rows from the perplexity and BLEU of each seed."""
    return [
        VariationResult(name, [make_result(perplexity=p, bleu=b) for p, b in seeds], 1)
        for name, seeds in values.items()
    ]


def test_unfinished_trainings_and_several_machines_are_named():
    other = {"device": "cpu", "threads": 2, "processor": "other"}
    rows = [
        table3.VariationResult("base", [make_result(program="0.1.0 at abc"), make_result("base-2", step=7)], 1),
        table3.VariationResult(
            "A1",
            [make_result("A1-1", program="0.1.0 at abc", environment=other)],
            1,
        ),
    ]
    text = table3.as_text(rows)
    assert "| base (7 of 10 steps) | 2 |" in text
    assert (
        "1 by 0.1.0 at abc, 1 thread of a processor; 1 by 0.1.0 at abc, 2 threads of other; "
        "1 by an earlier version, 1 thread of a processor." in text
    )


def test_an_order_holds_only_outside_of_its_interval():
    close = rows(base=[(5.0, 20.0), (5.1, 20.2), (5.2, 20.1)], A1=[(5.1, 20.0), (5.2, 20.1), (5.0, 20.3)])
    assert {ordering.verdict for ordering in compare_with_base(close)} == {"open"}
    apart = rows(base=[(5.0, 20.0), (5.1, 20.2), (5.2, 20.1)], C1=[(7.0, 22.0), (7.1, 22.1), (7.2, 22.2)])
    assert [(ordering.metric, ordering.verdict) for ordering in compare_with_base(apart)] == [
        ("perplexity", "holds"),
        ("bleu", "does not hold"),
    ]
    single = rows(base=[(5.0, 20.0)], C1=[(7.0, 22.0)])
    assert {ordering.verdict for ordering in compare_with_base(single)} == {"one seed"}
    assert Ordering("A3", "bleu", 0.0, 0.1, 0.3).verdict == "holds: equal"
    assert Ordering("A3", "bleu", 0.0, 0.1, 0.5).verdict == "open"  # a wide interval is no equality
    assert Ordering("A3", "bleu", 0.0, 1.0, 0.5).verdict == "does not hold"
    assert compare_with_base(rows(C1=[(7.0, 22.0)])) == []
    ablation = rows(base=[(5.0, 20.0), (5.1, 20.2), (5.2, 20.1)], **{"no-norm": [(7.0, 22.0), (7.1, 22.1)]})
    assert [ordering.verdict for ordering in compare_with_base(ablation)] == ["worse than base", "better than base"]
    assert "| no-norm | perplexity | +1.95 ± 0.27 | worse than base |" in table3.as_text(ablation)


def test_a_difference_has_the_interval_of_two_means():
    delta, within = difference([1.0, 2.0, 3.0], [4.0, 4.0, 4.0])
    assert delta == -2.0
    assert within == pytest.approx(2.776 * (1 / 3) ** 0.5)
    # A single value is taken to have the variance of the others.
    assert difference([5.0], [1.0, 2.0, 3.0]) == (3.0, pytest.approx(4.303 * (4 / 3) ** 0.5))
    assert difference([5.0], [1.0]) == (4.0, None)


def test_rows_are_trained_seed_by_seed_and_printed(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(table3, "ROWS", ["base", "C6"])
    monkeypatch.setattr(table3, "scale_named", lambda name: tiny)
    monkeypatch.setattr(table3, "divide_sizes", lambda model, scale: _tiny(model))

    def run(names, seeds):
        options = ExperimentOptions("small", tuple(names), seeds, None, tmp_path, 1, TrainOptions("cpu", 1))
        return table3.run_table3(options)[1]

    assert [len(row.seeds) for row in run(["base"], 2)] == [2, 0]
    rows = run(["C6"], 1)
    assert [len(row.seeds) for row in rows] == [2, 1]
    assert rows[0].seeds[0].perplexity != rows[0].seeds[1].perplexity
    text = table3.as_text(rows)
    assert "| base | 2 | " in text
    assert re.search(r"\| [+-]\d+\.\d\d ± \d", text)  # a difference has its sign
    assert "| C6 | perplexity | +0.20 |" in text


def test_recorded_seeds_are_read_where_others_are_missing(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(table3, "ROWS", ["base"])
    monkeypatch.setattr(table3, "read_trial", lambda trial, work, budget: make_result(trial.name))
    for trial in ("base-3", "base-1", "base-x", "other-2"):
        add_record(tmp_path, Record(trial, {}, {}))
    assert [result.trial for result in table3._read_seeds(tiny, "base", None, tmp_path)] == ["base-1", "base-3"]


def _tiny(model):
    attention = {"kind": "attention", "heads": 2, "d_k": 6, "d_v": 5}
    sizes = {"d_model": 24, "encoder_layers": 1, "decoder_layers": 1, "mixer": attention, "cross": attention}
    return {**model, **sizes, "feed_forward": {"kind": "feed_forward", "d_ff": model["feed_forward"]["d_ff"] // 64}}
