"""The arguments of sections 3.2.1, 3.5 and 4: the measures are right, and rows are trained, recorded and printed."""

from itertools import product
from unittest.mock import Mock

import pytest
import torch
from paper_fixtures import MEMORY, TRANSFORMER, make_result

from transduce.model.translation_model import Decoded, Vocabulary
from transduce.model_directory.model import Model
from transduce.paper import artificial_tasks, bleu_by_length, distance_costs, recall_by_distance, scaled_dot_product
from transduce.paper.distance_costs import DistanceResults
from transduce.paper.experiment_scales import ExperimentOptions
from transduce.paper.recall_by_distance import MIXERS, Recaller, RecallResult
from transduce.paper.system_presets import System
from transduce.run.train import TrainOptions

CPU = TrainOptions("cpu", 1)


def test_the_size_of_a_softmaxs_gradient_is_that_of_its_jacobian():
    scores = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    sizes = [torch.autograd.functional.jacobian(lambda row: row.softmax(-1), row).norm() for row in scores]
    torch.testing.assert_close(scaled_dot_product._jacobian_norm(scores.softmax(-1)), torch.stack(sizes))
    assert float(scaled_dot_product._jacobian_norm(torch.tensor([1.0, 0.0]))) == 0.0
    assert float(scaled_dot_product._jacobian_norm(torch.tensor([0.5, 0.5]))) == pytest.approx(0.5)


def test_additive_attention_keeps_more_the_wider_it_is():
    cpu = torch.device("cpu")
    saved = {
        (kind, d_k): scaled_dot_product.measure_cost(scaled_dot_product._attention(kind, d_k), cpu, 128)[1]
        for kind in ("scaled_dot", "additive")
        for d_k in (8, 32)
    }
    pairs = scaled_dot_product.SENTENCES * scaled_dot_product.HEADS * scaled_dot_product.TOKENS**2
    assert saved["additive", 32] - saved["additive", 8] >= 4 * pairs * (32 - 8)
    assert saved["scaled_dot", 32] - saved["scaled_dot", 8] < pairs * (32 - 8)


def test_a_large_d_k_without_scaling_drowns_the_softmaxs_gradient_where_queries_and_keys_are_of_unit_size():
    """The footnote of section 3.2.1: the dot product of two such vectors has the variance d_k."""
    sizes = {
        (kind, d_k): scaled_dot_product.unit_gradient(kind, d_k)
        for kind in scaled_dot_product.KINDS
        for d_k in (8, 512)
    }
    assert sizes["dot", 512] < 0.4 * sizes["dot", 8]
    for kind in ("scaled_dot", "bilinear", "additive"):
        assert sizes[kind, 512] == pytest.approx(sizes[kind, 8], rel=0.1), kind


def test_compatibilities_are_trained_and_drawn(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(scaled_dot_product, "WIDTHS", (4, 8))
    monkeypatch.setattr(scaled_dot_product, "STEPS", 2)
    monkeypatch.setattr(scaled_dot_product, "TOKENS", 8)
    monkeypatch.setattr(scaled_dot_product, "NAMES", ["additive-8"])
    monkeypatch.setattr(scaled_dot_product, "scale_named", lambda name: tiny)
    _, rows = scaled_dot_product.run_scaling(ExperimentOptions("small", (), 1, None, tmp_path, 1, CPU))
    assert [(row.kind, row.d_k) for row in rows if row.training] == [("additive", 8)]
    assert len(rows) == 8
    (trained,) = (row for row in rows if row.training)
    batch = scaled_dot_product._batch(
        scaled_dot_product.shared_store(scaled_dot_product.recipe_of(tiny, "additive", 8), tmp_path)
    )
    assert trained.trained_gradient == scaled_dot_product.gradient_size(
        Model.read(tmp_path / "additive-8").module, batch
    )
    assert "| v · tanh(q + k) | 8 |" in scaled_dot_product.as_text(rows)
    scaled_dot_product.draw(rows, tmp_path / "scaling.svg")
    assert (tmp_path / "scaling.svg").read_text("utf-8").count("<svg") == 1


@pytest.mark.parametrize(
    ("mixer", "reach"), [("convolution, k 5", 8), ("separable convolution, k 5", 8), ("attention, 4 neighbours", 16)]
)
def test_what_four_layers_of_a_mixer_cannot_hear_has_no_gradient(mixer, reach):
    torch.manual_seed(1)
    model = Recaller(MIXERS[mixer])
    assert recall_by_distance._fresh_gradient(model, reach) > 0
    assert recall_by_distance._fresh_gradient(model, reach + 1) == 0


@pytest.mark.parametrize("mixer", ["attention", "GRU"])
def test_a_mixer_that_reaches_recalls(mixer, monkeypatch):
    monkeypatch.setattr(recall_by_distance, "STEPS", 150)
    torch.manual_seed(1)
    assert recall_by_distance._train_and_test(Recaller(MIXERS[mixer]), 2) > 0.9


def test_a_tanh_cell_forgets_faster_than_attention():
    torch.manual_seed(1)
    sizes = {
        name: recall_by_distance._fresh_gradient(Recaller(MIXERS[name]), 64) for name in ("attention", "tanh cell")
    }
    assert sizes["tanh cell"] < 1e-6 < sizes["attention"]


def test_a_gradient_whose_square_float32_does_not_have_is_not_called_none():
    torch.manual_seed(1)
    assert 1e-45 < recall_by_distance._fresh_gradient(Recaller(MIXERS["tanh cell"]), 128) < 1e-23


def test_the_latest_of_several_records_counts(tmp_path):
    for accuracy, when in ((0.25, ""), (0.75, "2026-02-01"), (0.5, "2026-01-01")):
        values = {"accuracy": accuracy, "fresh_gradient": 1.0, "made_by": "here", **({"when": when} if when else {})}
        recall_by_distance.add_record(
            tmp_path, recall_by_distance.Record("GRU", recall_by_distance._settings("GRU", 8), values)
        )
    (result,) = recall_by_distance.run_recall(tmp_path, False, torch.device("cpu"))
    assert result == RecallResult("GRU", 8, 0.75, 1.0, "here")


def test_missing_results_leave_empty_cells():
    recalled = [RecallResult("GRU", 16, 0.5, 1e-3, "a machine")]
    system = make_result("base", measures={artificial_tasks._measure_name("agreement", artificial_tasks.BINS[2]): 0.5})
    text = distance_costs.as_text(DistanceResults(recalled, [system], []))
    assert "| GRU |  |  | 50% |  |  |  |" in text
    assert "| base |  |  | 50.0% |  |  |" in text
    assert "BLEU" not in text


def test_mixers_are_trained_once_for_each_setting(tmp_path, monkeypatch):
    monkeypatch.setattr(recall_by_distance, "MIXERS", {"attention": recall_by_distance.MIXERS["attention"]})
    monkeypatch.setattr(recall_by_distance, "DISTANCES", (4, 8))
    train_and_test = Mock(side_effect=[0.5, KeyboardInterrupt, 0.25])
    monkeypatch.setattr(recall_by_distance, "_train_and_test", train_and_test)
    assert recall_by_distance.run_recall(tmp_path, False, torch.device("cpu")) == []
    with pytest.raises(KeyboardInterrupt):
        recall_by_distance.run_recall(tmp_path, True, torch.device("cpu"))
    assert [result.accuracy for result in recall_by_distance.run_recall(tmp_path, False, torch.device("cpu"))] == [0.5]
    results = recall_by_distance.run_recall(tmp_path, True, torch.device("cpu"))
    assert [(result.mixer, result.distance, result.accuracy) for result in results] == [
        ("attention", 4, 0.5),
        ("attention", 8, 0.25),
    ]
    assert recall_by_distance.run_recall(tmp_path, True, torch.device("cpu")) == results
    assert train_and_test.call_count == 3
    monkeypatch.setattr(recall_by_distance, "STEPS", 7)
    assert recall_by_distance.run_recall(tmp_path, False, torch.device("cpu")) == []
    monkeypatch.undo()
    monkeypatch.setattr(recall_by_distance, "DISTANCES", (4, 6, 8))  # records of the other distances are still used
    assert recall_by_distance.run_recall(tmp_path, False, torch.device("cpu")) == results
    monkeypatch.setattr(recall_by_distance, "MIXERS", {"attention": recall_by_distance.MIXERS["GRU"]})
    assert recall_by_distance.run_recall(tmp_path, False, torch.device("cpu")) == []


def test_pairs_of_both_tasks():
    for source, target in artificial_tasks.draw_pairs("copying", iter([1, 5, 30]), 1):
        assert source == f"copying {target}"
    drawn = list(artificial_tasks.draw_pairs("agreement", iter([3] * 200), 1))
    classes = {}
    for source, target in drawn:
        task, first, *rest = source.split()
        assert task == "agreement"
        assert target.split()[:-1] == [first, *rest]
        assert classes.setdefault(first, target.split()[-1]) == target.split()[-1]
    assert set(classes.values()) == {"one", "two"}


def test_systems_are_trained_on_both_tasks(tmp_path, monkeypatch):
    systems = [System("first", None, "base", TRANSFORMER, 0.01), System("second", None, "base", MEMORY, 0.01)]
    monkeypatch.setattr(artificial_tasks, "SYSTEMS", systems)
    monkeypatch.setattr(artificial_tasks, "PAIRS", 400)
    monkeypatch.setattr(artificial_tasks, "STEPS", 3)
    monkeypatch.setattr(artificial_tasks, "TESTED", 2)
    results = artificial_tasks.run_sequences(["second"], None, tmp_path, CPU)
    (result,) = results
    assert result.trial == "second"
    for task, bounds in product(artificial_tasks.TASKS, artificial_tasks.BINS):
        assert 0 <= artificial_tasks.accuracy_of(result, task, bounds) <= 1


@pytest.mark.parametrize("system", artificial_tasks.SYSTEMS, ids=lambda system: system.name)
def test_every_system_is_a_recipe_and_a_model(system, tmp_path):
    spec = artificial_tasks._recipe(system, tmp_path).model
    model = spec.build(Vocabulary(source=9, target=9)).eval()
    words = torch.full((1, 5), 4)
    assert model.readout(model(words, torch.ones_like(words, dtype=torch.bool), words).states).shape == (1, 5, 9)


def test_the_last_word_alone_counts_in_agreement(tmp_path, monkeypatch):
    """A model whose only output is `one` is right about half the last words and no others."""
    monkeypatch.setattr(artificial_tasks, "SYSTEMS", [System("first", None, "base", TRANSFORMER, 0.01)])
    monkeypatch.setattr(artificial_tasks, "PAIRS", 2000)
    monkeypatch.setattr(artificial_tasks, "STEPS", 1)
    monkeypatch.setattr(artificial_tasks, "TESTED", 20)
    artificial_tasks.run_sequences(["first"], None, tmp_path, CPU)
    model = artificial_tasks.Model.read(tmp_path / "first")
    assert model.target.encode(["ba one"])[0][-1:] == model.target.encode(["du one"])[0][-1:]
    word = model.target.encode(["ba one"])[0][-1]

    class ConstantModel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.anything = torch.nn.Parameter(torch.zeros(1))

        def forward(self, source, visible, target_in):
            return Decoded(target_in)

        def readout(self, states):
            return torch.nn.functional.one_hot(torch.full_like(states, word), 400).float()

    accuracy = artificial_tasks._accuracy("agreement", (1, 8), model._replace(module=ConstantModel()), [])
    assert 0.3 < accuracy < 0.7
    assert artificial_tasks._accuracy("copying", (1, 8), model._replace(module=ConstantModel()), []) == 0.0


def test_positions_are_scored_by_length(tiny, tmp_path, monkeypatch):
    from transduce.paper import table3
    from transduce.settings import merged

    sizes = {key: value for key, value in TRANSFORMER.items() if key != "positions"}
    monkeypatch.setattr(table3, "divide_sizes", lambda model, scale: merged(model, sizes))
    monkeypatch.setattr(bleu_by_length, "LONGEST", 40)
    monkeypatch.setattr(bleu_by_length, "BINS", ((1, 200), (201, 300)))
    results = bleu_by_length.run_lengths(tiny, ["sinusoids", "learned"], None, tmp_path, CPU)
    assert [result.trial for result in results] == ["sinusoids", "learned"]
    assert [bleu_by_length.score_of(result, (1, 200)).sentences for result in results] == [5, 5]
    assert [bleu_by_length.score_of(result, (201, 300)) for result in results] == [None, None]
    recalled = [
        RecallResult("attention", distance, 0.5, 1e-3, "a machine") for distance in recall_by_distance.DISTANCES
    ]
    accuracies = {
        artificial_tasks._measure_name(*key): 0.5 for key in product(artificial_tasks.TASKS, artificial_tasks.BINS)
    }
    whole = DistanceResults(recalled, [make_result("base", measures=accuracies)], results)
    text = distance_costs.as_text(whole)
    assert "| attention | 50% | 50% |" in text
    assert "Both by a machine." in text
    assert "Trainings: 3, " in text
    assert "| base | 50.0% |" in text
    distance_costs.draw(whole, tmp_path / "distance.svg")
    assert (tmp_path / "distance.svg").exists()


def test_a_result_is_complete_after_all_steps():
    assert make_result().is_complete
    assert not make_result(step=3).is_complete
