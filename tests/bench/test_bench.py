"""What the benchmarks count and return."""

import time

import pytest
import torch

from transduce.bench import timing
from transduce.bench.timing import StepTimer, median_seconds
from transduce.bench.training_speed import bench_training
from transduce.bench.translation_speed import bench_translating
from transduce.commands import bench as commands_bench
from transduce.corpus.corpus_kinds import Embedded, Files
from transduce.corpus.planner import Planner
from transduce.recipe.recipe import from_values
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
    monkeypatch.setattr(timing, "MATRIX_SIZES", {"cpu": 64})


def test_training_counts_the_tokens_of_the_steps_after_the_warm_up(tmp_path, monkeypatch):
    """Where each step takes a second, tokens a second are tokens a step."""
    for side, line in (("en", "two words\n"), ("de", "drei kurze Wörter\n")):
        (tmp_path / f"train.{side}").write_text(line * 40)
    train = {"source": str(tmp_path / "train.en"), "target": str(tmp_path / "train.de")}
    changes = ["training.batch_tokens=64", "subwords.size=300", "model.d_model=8"]
    recipe = from_values({"data": {"train": train}, "model": {"preset": "tiny"}}, changes, place="here")
    tokens = []
    steps = Planner.steps

    def recorded_steps(planner, *start, **share):
        for planned in steps(planner, *start, **share):
            tokens.append(planned.tokens)
            yield planned

    monkeypatch.setattr(Planner, "steps", recorded_steps)
    monkeypatch.setattr(StepTimer, "seconds", lambda timer: [1.0] * (len(timer._marks) - 1))
    report = bench_training(recipe, "tiny", CPU, 2)
    assert report.keys() == KEYS
    assert report["tokens_per_second"] == sum(tokens[3:5]) / 2
    assert report["milliseconds"]["step"] == 1000
    assert report["milliseconds"]["25,000 target tokens"] == pytest.approx(1000 * 25_000 / report["tokens_per_second"])
    assert report["share_of_peak"] > 0
    assert report["settings"]["what"] == "tiny"
    assert report["settings"]["details"]["vocabulary"] < 300
    larger = bench_training(recipe, "tiny", CPU, 2, 300)
    assert larger["settings"]["details"]["vocabulary"] == 300
    assert larger["share_of_peak"] * larger["matrix_rate"] > report["share_of_peak"] * report["matrix_rate"]
    with pytest.raises(ValueError, match=r"--vocabulary 9: the text has \d+ subwords; ask for as many or more"):
        bench_training(recipe, "tiny", CPU, 2, 9)


def test_translating_counts_the_tokens_of_the_translations(trained):
    lines = ["a b", "", "c d e"]
    translator = Translator.load(trained)
    report = bench_translating(translator, lines, "run", 2, SearchMethod(translator.decoding))
    lengths = [len(translation.tokens) + 1 for translation in translator.translate_records(lines)]
    token_count = sum(lengths)
    assert report.keys() == {*KEYS, "lengths"}
    assert report["lengths"] == {"mean": pytest.approx(token_count / len(lines)), "longest": max(lengths)}
    assert 0 < report["milliseconds"]["alone, median"] <= report["milliseconds"]["alone, 99 %"]
    assert report["tokens_per_second"] / report["sentences_per_second"] == pytest.approx(token_count / len(lines))


def test_a_time_is_from_a_mark_to_the_next(monkeypatch):
    now = iter([1.0, 3.0, 3.5, 9.0])  # the last is that of the end
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    timer = StepTimer(CPU)
    for _ in range(3):
        timer.mark()
    assert timer.seconds() == [2.0, 0.5]


def test_the_median_excludes_the_warm_up(monkeypatch):
    now, durations = [0.0], iter([90, 90, 1, 2, 8])
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert median_seconds(lambda: now.append(now.pop() + next(durations)), CPU, runs=3) == 2


def test_training_uses_multi30k_where_it_has_been_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    assert commands_bench._recipe(None, None, None, [])[0].data.train[0] == Embedded(embedded="train")
    (tmp_path / "multi30k").mkdir()
    corpus = commands_bench._recipe(None, None, None, [])[0].data.train[0]
    assert corpus == Files(source=str(tmp_path / "multi30k/train.en"), target=str(tmp_path / "multi30k/train.de"))
