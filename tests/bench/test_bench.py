import time

import pytest
import torch

from transduce.bench import bench_training, bench_translating, measured
from transduce.bench.measured import Laps, median_seconds
from transduce.commands import bench as commands_bench
from transduce.corpus import Embedded, Files, Planner
from transduce.recipe import from_values
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

KEYS = {
    "tokens_per_second",
    "sentences_per_second",
    "milliseconds",
    "matrix_rate",
    "share_of_peak",
    "peak_memory",
    "padding",
    "settings",
}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _small_matrices(monkeypatch):
    monkeypatch.setattr(measured, "WIDTHS", {"cpu": 64})


def test_training_counts_the_words_of_the_steps_that_count(tmp_path, monkeypatch):
    """Where each lap takes a second, words a second are words a step: of the steps after the warm-up."""
    for side, line in (("en", "two words\n"), ("de", "drei kurze Wörter\n")):
        (tmp_path / f"train.{side}").write_text(line * 40)
    train = {"source": str(tmp_path / "train.en"), "target": str(tmp_path / "train.de")}
    changes = ["training.batch_tokens=64", "subwords.size=300", "model.d_model=8"]
    recipe = from_values({"data": {"train": train}, "model": {"preset": "tiny"}}, changes, place="here")
    words = []
    steps = Planner.steps

    def noted(planner, *start, **share):
        for planned in steps(planner, *start, **share):
            words.append(planned.tokens)
            yield planned

    monkeypatch.setattr(Planner, "steps", noted)
    monkeypatch.setattr(Laps, "seconds", lambda laps: [1.0] * (len(laps._moments) - 1))
    found = bench_training(recipe, "tiny", CPU, 2, lambda line: None)
    assert found.keys() == KEYS
    assert found["tokens_per_second"] == sum(words[3:5]) / 2
    assert found["milliseconds"]["step"] == 1000
    assert found["milliseconds"]["25,000 target tokens"] == pytest.approx(1000 * 25_000 / found["tokens_per_second"])
    assert found["share_of_peak"] > 0
    assert found["settings"]["what"] == "tiny"
    assert found["settings"]["details"]["vocabulary"] < 300
    larger = bench_training(recipe, "tiny", CPU, 2, lambda line: None, 300)
    assert larger["settings"]["details"]["vocabulary"] == 300
    assert larger["share_of_peak"] * larger["matrix_rate"] > found["share_of_peak"] * found["matrix_rate"]
    with pytest.raises(ValueError, match=r"--vocabulary 9: the text has \d+ subwords; ask for as many or more"):
        bench_training(recipe, "tiny", CPU, 2, lambda line: None, 9)


def test_translating_counts_what_is_written(trained):
    lines = ["a b", "", "c d e"]
    translator = Translator.load(trained)
    found = bench_translating(translator, lines, "run", 2, SearchMethod(translator.decoding))
    lengths = [len(translation.tokens) + 1 for translation in translator.translate(lines)]
    written = sum(lengths)
    assert found.keys() == {*KEYS, "lengths"}
    assert found["lengths"] == {"mean": pytest.approx(written / len(lines)), "longest": max(lengths)}
    assert 0 < found["milliseconds"]["alone, median"] <= found["milliseconds"]["alone, 99 %"]
    assert found["tokens_per_second"] / found["sentences_per_second"] == pytest.approx(written / len(lines))


def test_a_lap_is_from_a_mark_to_the_next():
    laps = Laps(CPU)
    laps.mark()
    time.sleep(0.05)
    laps.mark()
    laps.mark()
    long, short = laps.seconds()
    assert 0.05 <= long < 1
    assert short < long


def test_the_median_leaves_the_warm_up_out(monkeypatch):
    now, takes = [0.0], iter([90, 90, 1, 2, 8])
    monkeypatch.setattr(measured.time, "perf_counter", lambda: now[0])
    assert median_seconds(lambda: now.append(now.pop() + next(takes)), CPU, runs=3) == 2


def test_steps_are_of_multi30k_where_it_is_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    assert commands_bench._recipe(None, None, None, [], CPU)[0].data.train[0] == Embedded(embedded="train")
    (tmp_path / "multi30k").mkdir()
    found = commands_bench._recipe(None, None, None, [], CPU)[0].data.train[0]
    assert found == Files(source=str(tmp_path / "multi30k/train.en"), target=str(tmp_path / "multi30k/train.de"))


@pytest.mark.parametrize(
    ("device", "changes", "micro_batches"), [("cpu", [], "auto"), ("cuda", [], 1), ("cuda", ["3"], 3)]
)
def test_a_step_is_one_piece_on_a_gpu_unless_it_is_said_otherwise(device, changes, micro_batches):
    changes = [f"training.micro_batches={change}" for change in changes]
    recipe, name = commands_bench._recipe(None, "base", None, changes, torch.device(device))
    assert (recipe.training.micro_batches, name) == (micro_batches, "base")
