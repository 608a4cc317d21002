"""Trackers: each value once, whatever happens to the training; whatever happens to a tracker, the training goes on."""

import contextlib
import csv
import json
import math
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from micro_run import Moment, forked
from transduce.run import trackers
from transduce.run.metrics_log import MetricsLog
from transduce.run.trackers import (
    BackgroundTracker,
    CsvTracker,
    MlflowTracker,
    TrackerChoice,
    WandbTracker,
    start_trackers,
)
from transduce.run.train import _start_trackers


class FakeTracker:
    """Records what it receives; fails at a call, or waits at one."""

    def __init__(self, fails_at: str = "", waits_for: threading.Event | None = None) -> None:
        self.calls: list[Any] = []
        self.fails_at, self.waits_for = fails_at, waits_for

    def _call(self, name: str, *values: Any) -> None:
        if self.waits_for is not None:
            self.waits_for.wait(10)
        if name == self.fails_at:
            raise SystemExit("the service\nis away")  # libraries exit too
        self.calls.append((name, *values))

    def begin(self, run: str | None) -> str:
        self._call("begin", run)
        return run or "run-7"

    def add(self, step: int, values: Any) -> None:
        self._call("add", step, dict(values))

    def close(self) -> None:
        self._call("close")


def background(tracker: FakeTracker, folder: Path) -> BackgroundTracker:
    return BackgroundTracker("The fake", tracker, folder / "tracker-fake.json")


def test_finite_numbers_arrive_in_order(tmp_path: Path, log_lines: list[str]) -> None:
    tracker = FakeTracker()
    running = background(tracker, tmp_path)
    running.add(2, {"loss": 1.5, "signature": "x", "perplexity": math.inf})
    running.add(2, {"bleu": math.nan})
    running.add(2, {"bleu": 7})
    running.close()
    assert tracker.calls == [("begin", None), ("add", 2, {"loss": 1.5}), ("add", 2, {"bleu": 7}), ("close",)]
    assert log_lines == []


def test_a_training_that_takes_no_step_opens_no_run(tmp_path: Path, log_lines: list[str]) -> None:
    tracker = FakeTracker()
    background(tracker, tmp_path).close()
    assert tracker.calls == []
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_training_goes_on_with_the_run_and_repeats_nothing(tmp_path: Path, log_lines: list[str]) -> None:
    first: list[Any] = [(2, {"loss": 1.0}), (4, {"loss": 0.5})]
    new: list[Any] = [(4, {"bleu": 3.0}), (6, {"loss": 0.4})]
    starts = (
        (None, first, first),
        ("run-7", [*first, (4, {"bleu": 3.0, "loss": 0.5}), new[1]], new),
        ("run-7", new, []),
    )
    for run, values, expected in starts:
        tracker = FakeTracker()
        running = background(tracker, tmp_path)
        for step, part in values:
            running.add(step, part)
        running.close()
        opened, *added, closed = tracker.calls
        assert opened == ("begin", run)
        assert [call[1:] for call in added] == expected
        assert closed == ("close",)
    assert log_lines == []


@pytest.mark.parametrize("fails_at", ["begin", "add", "close"])
def test_a_failure_is_one_warning_and_the_end_of_the_tracker(
    fails_at: str, tmp_path: Path, log_lines: list[str]
) -> None:
    tracker = FakeTracker(fails_at)
    running = background(tracker, tmp_path)
    running.add(1, {"loss": 2.0})
    if fails_at != "close":
        running._thread.join(10)
    for step in (2, 3):
        running.add(step, {"loss": 1.0})
    running.close()
    reason = "The fake failed (SystemExit: the service is away); it gets no more values, metrics.jsonl has them all"
    assert log_lines == [f"warning: {reason}"]
    assert ("close",) not in tracker.calls


def test_a_service_that_does_not_answer_holds_nothing_up(
    tmp_path: Path, log_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "MAX_WAITING", 2)
    monkeypatch.setattr(trackers, "PATIENCE", 0.05)
    answer = threading.Event()
    running = background(FakeTracker(waits_for=answer), tmp_path)
    for step in range(1, 9):
        running.add(step, {"loss": 1.0})
    running.close()
    (line,) = log_lines
    assert "The fake is more than 2 records behind; it gets no more values" in line
    slow = background(FakeTracker(waits_for=answer), tmp_path)
    slow.add(1, {"loss": 1.0})
    slow.close()
    assert "has not ended after 0 seconds" in log_lines[1]
    answer.set()
    slow._thread.join(10)


@pytest.mark.parametrize("content", [b"{", b'{"step": -1, "run": 3}', b"\xff"])
def test_a_damaged_state_is_a_warning(content: bytes, tmp_path: Path, log_lines: list[str]) -> None:
    (tmp_path / "tracker-fake.json").write_bytes(content)
    tracker = FakeTracker()
    running = background(tracker, tmp_path)
    running.add(1, {"loss": 1.0})
    running.close()
    assert len(log_lines) == 1
    assert tracker.calls == []
    assert (tmp_path / "tracker-fake.json").read_bytes() == content


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_columns_of_the_table_grow(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    tracker = CsvTracker(path)
    tracker.begin(None)
    tracker.add(1, {"loss": 2.0})
    tracker.add(1, {"bleu": 3.5, "a,b": 1})
    tracker.add(2, {"loss": 1.0})
    assert path.read_text("utf-8") == 'step,loss,bleu,"a,b"\n1,2.0,,\n1,,3.5,1\n2,1.0,,\n'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("step,loss\n1,2.0\n", "step,loss\n1,2.0\n2,1.0\n"),
        ("step,loss\n1,2.0\n2,1.0\n", "step,loss\n1,2.0\n2,1.0\n"),  # received, and not yet noted
        ("step,loss\n1,2.0\n2,1.", "step,loss\n1,2.0\n2,1.0\n"),  # half written
        ("step,bleu\n2,1.0\n", "step,bleu,loss\n2,1.0,\n2,,1.0\n"),
        ("", "step,loss\n2,1.0\n"),
    ],
)
def test_a_table_of_an_earlier_start_goes_on(content: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(content)
    tracker = CsvTracker(path)
    tracker.begin(None)
    tracker.add(2, {"loss": 1.0})
    assert path.read_text() == expected


def test_weights_and_biases_goes_on_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, Any]] = []
    logged: list[Any] = []

    def init(**options: Any) -> SimpleNamespace:
        opened.append(options)
        run = SimpleNamespace(id=options["id"] or "abc", finish=lambda: logged.append("finish"))
        run.log = lambda values, step: logged.append((step, values))
        return run

    fake = ModuleType("wandb")
    fake.init, fake.Settings = init, lambda **options: options  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_DIR", raising=False)
    for run in (None, "abc"):
        tracker = WandbTracker("project", tmp_path / "mine" / "training", {"model": {"d_model": 8}})
        assert tracker.begin(run) == "abc"
        tracker.add(3, {"loss": 1.0})
        tracker.close()
    first, second = opened
    assert (first["project"], first["id"], first["name"], first["resume"]) == ("project", None, "mine", "allow")
    assert (first["config"], first["dir"]) == ({"model": {"d_model": 8}}, tmp_path / "mine" / "training")
    assert first["settings"]["console"] == "off"
    assert second["id"] == "abc"
    assert logged == [(3, {"loss": 1.0}), "finish"] * 2


class FakeMlflow:
    """MLflow's client over a dictionary of runs."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        return self.experiments.setdefault(name, "5")

    def create_run(self, experiment: str, run_name: str) -> SimpleNamespace:
        assert experiment == "5"
        self.runs["r1"] = {"name": run_name, "metrics": [], "params": {}}
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        assert len(params) <= 100
        self.runs[run]["metrics"] += [(metric.key, metric.value, metric.step) for metric in metrics]
        self.runs[run]["params"] |= {param.key: param.value for param in params}

    def get_metric_history(self, run: str, key: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(step=step) for name, _, step in self.runs[run]["metrics"] if name == key]

    def set_terminated(self, run: str, status: str) -> None:
        self.runs[run]["status"] = status


def test_mlflow_goes_on_with_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeMlflow()
    fake, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    fake.MlflowClient = lambda: client  # type: ignore[attr-defined]
    entities.Param = lambda key, value: SimpleNamespace(key=key, value=value)  # type: ignore[attr-defined]
    entities.Metric = lambda key, value, timestamp, step: SimpleNamespace(  # type: ignore[attr-defined]
        key=key, value=value, step=step
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    settings = {"model": {"d_model": 8}, "note": "x" * 999, **{f"key{number}": number for number in range(200)}}
    first = MlflowTracker("experiment", "mine", settings)
    assert first.begin(None) == "r1"
    first.add(1, {"loss": 2})
    first.add(2, {"loss": 1.5})
    second = MlflowTracker("experiment", "mine", settings)
    assert second.begin("r1") == "r1"
    assert client.runs["r1"]["status"] == "RUNNING"
    second.add(2, {"loss": 1.5, "bleu": 3.0})  # the loss was received, and not yet noted
    second.add(3, {"loss": 1.0})
    second.close()
    run = client.runs["r1"]
    assert run["metrics"] == [("loss", 2.0, 1), ("loss", 1.5, 2), ("bleu", 3.0, 2), ("loss", 1.0, 3)]
    assert (run["name"], run["status"], run["params"]["model.d_model"]) == ("mine", "FINISHED", "8")
    assert (len(run["params"]), len(run["params"]["note"])) == (202, 250)


@pytest.mark.parametrize(("choice", "extra"), [({"wandb": "p"}, "wandb"), ({"mlflow": "e"}, "mlflow")])
def test_a_missing_library_is_named_before_the_training(
    choice: dict[str, str], extra: str, micro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = rf"--track {extra}: its library is missing; `pip install '\.\[{extra}\]'`"
    with pytest.raises(ValueError, match=message):
        TrackerChoice(**choice).check()
    code, _, error = command("train", micro / "recipe.yaml", "--out", tmp_path / "run", "--track", extra)
    assert (code, "pip install" in error) == (2, True)
    assert not (tmp_path / "run").exists()


def test_each_chosen_tracker_starts_on_rank_zero_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "training").mkdir()
    chosen = start_trackers(TrackerChoice(csv=True, wandb="p", mlflow="e"), tmp_path, {})
    assert [tracker.name for tracker in chosen] == ["the CSV file", "Weights & Biases", "MLflow"]
    for tracker in chosen:
        tracker.close()
    for rank in (0, 1):
        log = MetricsLog(tmp_path)
        recipe = SimpleNamespace(as_dictionary=dict)
        group = SimpleNamespace(is_rank_zero=rank == 0)
        trainer: Any = SimpleNamespace(group=group, recipe=recipe, metrics_log=log, out=tmp_path)
        with contextlib.ExitStack() as stack:
            _start_trackers(trainer, TrackerChoice(csv=True), stack)
            assert len(log.trackers) == 1 - rank
            assert all(tracker._thread.is_alive() for tracker in log.trackers)
        assert not any(tracker._thread.is_alive() for tracker in log.trackers)


def test_a_killed_training_has_each_value_once_in_its_table(micro: Path, tmp_path: Path) -> None:
    words = (
        "train",
        micro / "recipe.yaml",
        "--out",
        tmp_path / "run",
        "--track",
        "csv",
        "--set",
        "training.average=null",
    )
    assert forked(*words, moment=Moment("step 6/")).code == -9
    ended = forked(*words)
    assert ended.code == 0, ended.error
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rows = table(tmp_path / "run" / "training" / "metrics.csv")
    for name in ("loss", "bleu", "validation_loss"):
        logged = [(record["step"], record[name]) for record in records if name in record]
        assert [(int(row["step"]), float(row[name])) for row in rows if row[name]] == logged
        assert len(logged) >= 4
