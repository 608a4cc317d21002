"""The arguments of sections 3.2.1, 3.5 and 4: the measures are right, and rows are trained, recorded and printed."""

from itertools import product
from unittest.mock import Mock

import pytest
import torch
from paper_fixtures import MEMORY, TRANSFORMER, make_result

from transduce.model.translation_model import Decoded, Vocabulary
from transduce.paper import distance, lengths, recall, scaling, sequences
from transduce.paper.distance import DistanceResults
from transduce.paper.published_systems import System
from transduce.paper.recall import MIXERS, Recaller, RecallResult
from transduce.trainer.train import TrainOptions

CPU = TrainOptions("cpu", 1)


def test_the_size_of_a_softmaxs_gradient_is_that_of_its_jacobian():
    scores = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    sizes = [torch.autograd.functional.jacobian(lambda row: row.softmax(-1), row).norm() for row in scores]
    torch.testing.assert_close(scaling._jacobian_norm(scores.softmax(-1)), torch.stack(sizes))
    assert float(scaling._jacobian_norm(torch.tensor([1.0, 0.0]))) == 0.0
    assert float(scaling._jacobian_norm(torch.tensor([0.5, 0.5]))) == pytest.approx(0.5)


def test_additive_attention_keeps_more_the_wider_it_is():
    cpu = torch.device("cpu")
    saved = {
        (kind, d_k): scaling.measure_cost(scaling._attention(kind, d_k), cpu, 128)[1]
        for kind in ("scaled_dot", "additive")
        for d_k in (8, 32)
    }
    pairs = scaling.SENTENCES * scaling.HEADS * scaling.TOKENS**2
    assert saved["additive", 32] - saved["additive", 8] >= 4 * pairs * (32 - 8)
    assert saved["scaled_dot", 32] - saved["scaled_dot", 8] < pairs * (32 - 8)


def test_a_large_d_k_without_scaling_drowns_the_softmaxs_gradient_where_queries_and_keys_are_of_unit_size():
    """The footnote of section 3.2.1: the dot product of two such vectors has the variance d_k."""
    sizes = {(kind, d_k): scaling.unit_gradient(kind, d_k) for kind in scaling.KINDS for d_k in (8, 512)}
    assert sizes["dot", 512] < 0.4 * sizes["dot", 8]
    for kind in ("scaled_dot", "bilinear", "additive"):
        assert sizes[kind, 512] == pytest.approx(sizes[kind, 8], rel=0.1), kind


def test_compatibilities_are_trained_and_drawn(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "WIDTHS", (4, 8))
    monkeypatch.setattr(scaling, "STEPS", 2)
    monkeypatch.setattr(scaling, "TOKENS", 8)
    rows = scaling.run_scaling(tiny, ["additive-8"], None, tmp_path, CPU)
    assert [(row.kind, row.d_k) for row in rows if row.training] == [("additive", 8)]
    assert len(rows) == 8
    (trained,) = (row for row in rows if row.training)
    batch = scaling._batch(scaling.shared_store(scaling.recipe_of(tiny, "additive", 8), tmp_path))
    assert trained.trained_gradient == scaling.gradient_size(scaling.Model.read(tmp_path / "additive-8").module, batch)
    assert "| v · tanh(q + k) | 8 |" in scaling.as_text(rows)
    scaling.draw(rows, tmp_path / "scaling.svg")
    assert (tmp_path / "scaling.svg").read_text("utf-8").count("<svg") == 1


@pytest.mark.parametrize(
    ("mixer", "reach"), [("convolution, k 5", 8), ("separable convolution, k 5", 8), ("attention, 4 neighbours", 16)]
)
def test_what_four_layers_of_a_mixer_cannot_hear_has_no_gradient(mixer, reach):
    torch.manual_seed(1)
    model = Recaller(MIXERS[mixer])
    assert recall._fresh_gradient(model, reach) > 0
    assert recall._fresh_gradient(model, reach + 1) == 0


@pytest.mark.parametrize("mixer", ["attention", "GRU"])
def test_a_mixer_that_reaches_recalls(mixer, monkeypatch):
    monkeypatch.setattr(recall, "STEPS", 150)
    torch.manual_seed(1)
    assert recall._train_and_test(Recaller(MIXERS[mixer]), 2) > 0.9


def test_a_tanh_cell_forgets_faster_than_attention():
    torch.manual_seed(1)
    sizes = {name: recall._fresh_gradient(Recaller(MIXERS[name]), 64) for name in ("attention", "tanh cell")}
    assert sizes["tanh cell"] < 1e-6 < sizes["attention"]


def test_a_gradient_whose_square_float32_does_not_have_is_not_called_none():
    torch.manual_seed(1)
    assert 1e-45 < recall._fresh_gradient(Recaller(MIXERS["tanh cell"]), 128) < 1e-23


def test_the_latest_of_several_records_counts(tmp_path):
    for accuracy, when in ((0.25, ""), (0.75, "2026-02-01"), (0.5, "2026-01-01")):
        values = {"accuracy": accuracy, "fresh_gradient": 1.0, "made_by": "here", **({"when": when} if when else {})}
        recall.add_record(tmp_path, recall.Record("GRU", recall._settings("GRU", 8), values))
    (result,) = recall.run_recall(tmp_path, False, torch.device("cpu"))
    assert result == RecallResult("GRU", 8, 0.75, 1.0, "here")


def test_missing_results_leave_empty_cells():
    recalled = [RecallResult("GRU", 16, 0.5, 1e-3, "a machine")]
    system = make_result("base", measures={sequences._measure_name("agreement", sequences.BINS[2]): 0.5})
    text = distance.as_text(DistanceResults(recalled, [system], []))
    assert "| GRU |  |  | 50% |  |  |  |" in text
    assert "| base |  |  | 50.0% |  |  |" in text
    assert "BLEU" not in text


def test_mixers_are_trained_once_for_each_setting(tmp_path, monkeypatch):
    monkeypatch.setattr(recall, "MIXERS", {"attention": recall.MIXERS["attention"]})
    monkeypatch.setattr(recall, "DISTANCES", (4, 8))
    train_and_test = Mock(side_effect=[0.5, KeyboardInterrupt, 0.25])
    monkeypatch.setattr(recall, "_train_and_test", train_and_test)
    assert recall.run_recall(tmp_path, False, torch.device("cpu")) == []
    with pytest.raises(KeyboardInterrupt):
        recall.run_recall(tmp_path, True, torch.device("cpu"))
    assert [result.accuracy for result in recall.run_recall(tmp_path, False, torch.device("cpu"))] == [0.5]
    results = recall.run_recall(tmp_path, True, torch.device("cpu"))
    assert [(result.mixer, result.distance, result.accuracy) for result in results] == [
        ("attention", 4, 0.5),
        ("attention", 8, 0.25),
    ]
    assert recall.run_recall(tmp_path, True, torch.device("cpu")) == results
    assert train_and_test.call_count == 3
    monkeypatch.setattr(recall, "STEPS", 7)
    assert recall.run_recall(tmp_path, False, torch.device("cpu")) == []
    monkeypatch.undo()
    monkeypatch.setattr(recall, "DISTANCES", (4, 6, 8))  # records of the other distances are still used
    assert recall.run_recall(tmp_path, False, torch.device("cpu")) == results
    monkeypatch.setattr(recall, "MIXERS", {"attention": recall.MIXERS["GRU"]})
    assert recall.run_recall(tmp_path, False, torch.device("cpu")) == []


def test_pairs_of_both_tasks():
    for source, target in sequences.draw_pairs("copying", iter([1, 5, 30]), 1):
        assert source == f"copying {target}"
    drawn = list(sequences.draw_pairs("agreement", iter([3] * 200), 1))
    classes = {}
    for source, target in drawn:
        task, first, *rest = source.split()
        assert task == "agreement"
        assert target.split()[:-1] == [first, *rest]
        assert classes.setdefault(first, target.split()[-1]) == target.split()[-1]
    assert set(classes.values()) == {"one", "two"}


def test_systems_are_trained_on_both_tasks(tmp_path, monkeypatch):
    systems = [System("first", None, "base", TRANSFORMER, 0.01), System("second", None, "base", MEMORY, 0.01)]
    monkeypatch.setattr(sequences, "SYSTEMS", systems)
    monkeypatch.setattr(sequences, "PAIRS", 400)
    monkeypatch.setattr(sequences, "STEPS", 3)
    monkeypatch.setattr(sequences, "TESTED", 2)
    results = sequences.run_sequences(["second"], None, tmp_path, CPU)
    (result,) = results
    assert result.trial == "second"
    for task, bounds in product(sequences.TASKS, sequences.BINS):
        assert 0 <= sequences.accuracy_of(result, task, bounds) <= 1


@pytest.mark.parametrize("system", sequences.SYSTEMS, ids=lambda system: system.name)
def test_every_system_is_a_recipe_and_a_model(system, tmp_path):
    spec = sequences._recipe(system, tmp_path).model
    model = spec.build(Vocabulary(source=9, target=9)).eval()
    words = torch.full((1, 5), 4)
    assert model.readout(model(words, torch.ones_like(words, dtype=torch.bool), words).states).shape == (1, 5, 9)


def test_the_last_word_alone_counts_in_agreement(tmp_path, monkeypatch):
    """A model whose only output is `one` is right about half the last words and no others."""
    monkeypatch.setattr(sequences, "SYSTEMS", [System("first", None, "base", TRANSFORMER, 0.01)])
    monkeypatch.setattr(sequences, "PAIRS", 2000)
    monkeypatch.setattr(sequences, "STEPS", 1)
    monkeypatch.setattr(sequences, "TESTED", 20)
    sequences.run_sequences(["first"], None, tmp_path, CPU)
    model = sequences.Model.read(tmp_path / "first")
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

    accuracy = sequences._accuracy("agreement", (1, 8), model._replace(module=ConstantModel()), [])
    assert 0.3 < accuracy < 0.7
    assert sequences._accuracy("copying", (1, 8), model._replace(module=ConstantModel()), []) == 0.0


def test_positions_are_scored_by_length(tiny, tmp_path, monkeypatch):
    from transduce.paper import table3
    from transduce.settings import merged

    sizes = {key: value for key, value in TRANSFORMER.items() if key != "positions"}
    monkeypatch.setattr(table3, "divide_sizes", lambda model, scale: merged(model, sizes))
    monkeypatch.setattr(lengths, "LONGEST", 40)
    monkeypatch.setattr(lengths, "BINS", ((1, 200), (201, 300)))
    results = lengths.run_lengths(tiny, ["sinusoids", "learned"], None, tmp_path, CPU)
    assert [result.trial for result in results] == ["sinusoids", "learned"]
    assert [lengths.score_of(result, (1, 200)).sentences for result in results] == [5, 5]
    assert [lengths.score_of(result, (201, 300)) for result in results] == [None, None]
    recalled = [RecallResult("attention", distance, 0.5, 1e-3, "a machine") for distance in recall.DISTANCES]
    accuracies = {sequences._measure_name(*key): 0.5 for key in product(sequences.TASKS, sequences.BINS)}
    whole = DistanceResults(recalled, [make_result("base", measures=accuracies)], results)
    text = distance.as_text(whole)
    assert "| attention | 50% | 50% |" in text
    assert "Both by a machine." in text
    assert "Trainings: 3, " in text
    assert "| base | 50.0% |" in text
    distance.draw(whole, tmp_path / "distance.svg")
    assert (tmp_path / "distance.svg").exists()


def test_a_result_is_complete_after_all_steps():
    assert make_result().is_complete
    assert not make_result(step=3).is_complete
