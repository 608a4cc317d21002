"""Trackers send the metrics of a run to a CSV file, Weights & Biases or MLflow during training.

Each tracker works in a thread of its own, so that it can neither stop a run nor slow it down. `metrics.jsonl` contains
all values even if a tracker fails.
"""

import csv
import importlib.util
import json
import logging
import math
import os
import queue
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from transduce.runtime.extras import install_command
from transduce.settings import Spec, flat, validated
from transduce.storage.atomic import atomic_write, atomic_write_text
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.storage.result_files import name_in_errors

_log = logging.getLogger("transduce")


MAX_WAITING = 10_000  # maximum number of records that may be waiting for a tracker
PATIENCE = 20.0  # seconds that a run waits at its end for a tracker to receive the remaining records


class TrackerChoice(NamedTuple):
    """The trackers that the user has chosen, in addition to `metrics.jsonl` and TensorBoard."""

    csv: bool = False  # writes `metrics.csv` in the run directory
    wandb: str | None = None  # name of a project in Weights & Biases
    mlflow: str | None = None  # name of an experiment in MLflow

    def check(self) -> None:
        """Raises ValueError if the library of a chosen tracker is not installed."""
        for name, wanted in (("wandb", self.wandb), ("mlflow", self.mlflow)):
            if wanted is not None and importlib.util.find_spec(name) is None:
                raise ValueError(f"--track {name}: its library is missing; {install_command(name)}")


NO_TRACKERS = TrackerChoice()


class TrackerState(Spec):
    """Records which values a tracker has received, so that a resumed run does not send them again.

    The record is stored in the run directory.
    """

    run: str | None = None  # id of the run in the tracking service
    step: int = 0  # the last step whose values the tracker has received
    names: tuple[str, ...] = ()  # names of the values that it has received for this step


class Tracker(Protocol):
    """The interface of a tracker, which receives the metrics of a run.

    A method may raise any exception; after that, no method of the tracker is called again.
    """

    def begin(self, run: str | None) -> str | None:
        """Opens the run with the id `run`, or a new run if `run` is None, and returns the id."""
        ...

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Stores the values of a step, which are all finite; step numbers never decrease.

        After a crash, the first call may repeat the last values that were stored before it. The tracker must not store
        them twice.
        """
        ...

    def close(self) -> None:
        """Finishes the run, which may be resumed later."""
        ...


class BackgroundTracker:
    """Passes values to a tracker in a background thread.

    If the tracker raises an exception, a single warning is logged and the tracker is switched off.
    """

    def __init__(self, name: str, tracker: Tracker, state_file: Path) -> None:
        self.name, self._tracker, self._file = name, tracker, state_file
        self._queue: queue.Queue[tuple[int, dict[str, float]] | None] = queue.Queue(MAX_WAITING)
        self._state = TrackerState()
        self._error: str | None = None
        self._is_on = True
        # The thread is a daemon, so that a service that does not respond cannot keep the process from exiting.
        self._thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self._thread.start()

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Queues the finite numbers in `values` for the tracker, without blocking.

        Does nothing if the tracker is switched off.
        """
        self._warn_of_error()
        numbers = {
            name: value for name, value in values.items() if isinstance(value, int | float) and math.isfinite(value)
        }
        if self._is_on and numbers:
            try:
                self._queue.put_nowait((step, numbers))
            except queue.Full:
                self._turn_off(f"is more than {MAX_WAITING:,} records behind")

    def close(self) -> None:
        """Closes the tracker, after waiting up to `PATIENCE` seconds for it to receive the queued values."""
        if self._is_on:
            try:
                self._queue.put(None, timeout=PATIENCE)
            except queue.Full:
                self._turn_off("does not take any more records")
                return
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                self._turn_off(f"has not ended after {PATIENCE:.0f} seconds")
        self._warn_of_error()
        self._is_on = False

    def _warn_of_error(self) -> None:
        if self._error is not None and self._is_on:
            self._turn_off(self._error)

    def _turn_off(self, reason: str) -> None:
        self._is_on = False
        _log.warning(f"warning: {self.name} {reason}; it gets no more values, metrics.jsonl has them all")

    def _work(self) -> None:
        """Passes the queued values to the tracker until the queue is closed; this is the body of the thread."""
        try:
            if (item := self._queue.get()) is None:
                return  # the run ended without a training step
            # Continues the tracked run if this run was resumed, otherwise opens a new one and saves its id.
            saved = TrackerState()
            if self._file.exists():
                content = json.loads(read_regular_file(self._file, MAX_JSON_BYTES))
                saved = validated(TrackerState, content, place=str(self._file))
            run = self._tracker.begin(saved.run)
            self._save(TrackerState(run=run, step=saved.step, names=saved.names))
            while item is not None:
                self._pass_on(*item)
                item = self._queue.get()
            self._tracker.close()
        except BaseException as error:  # a library may also raise SystemExit, which a thread would not report
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self._error = f"failed ({reason[:300]})"

    def _pass_on(self, step: int, values: dict[str, float]) -> None:
        """Sends those values to the tracker that it has not received yet.

        It may have received some of them already, because a resumed run repeats the steps after its last checkpoint.
        """
        state = self._state
        sent = set(state.names) if step == state.step else set()
        if step < state.step or not (new := {name: value for name, value in values.items() if name not in sent}):
            return
        self._tracker.add(step, new)
        self._save(TrackerState(run=state.run, step=step, names=(*sorted(sent), *new)))

    def _save(self, state: TrackerState) -> None:
        """Replaces the state file without flushing it to disk.

        After a power failure, the tracker may therefore lose or repeat a value.
        """
        self._state = state
        with name_in_errors(self._file):
            atomic_write_text(self._file, state.model_dump_json(), flushed=False)


def start_trackers(choice: TrackerChoice, run: Path, settings: Mapping[str, Any]) -> Sequence[BackgroundTracker]:
    """Starts the chosen trackers for the run in the directory `run`, and returns them.

    `settings` are the settings of its recipe, which the tracking services display.
    """
    folder = run.resolve() / "training"
    trackers: dict[str, tuple[str, Tracker]] = {}
    if choice.csv:
        trackers["csv"] = "the CSV file", CsvTracker(folder / "metrics.csv")
    if choice.wandb is not None:
        trackers["wandb"] = "Weights & Biases", WandbTracker(choice.wandb, folder, settings)
    if choice.mlflow is not None:
        trackers["mlflow"] = "MLflow", MlflowTracker(choice.mlflow, run.resolve().name, settings)
    return [
        BackgroundTracker(name, tracker, folder / f"tracker-{key}.json") for key, (name, tracker) in trackers.items()
    ]


class CsvTracker:
    """Writes the values to a CSV file, one row for each call of `add`.

    A value with a new name adds a column, for which the file is rewritten.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: list[str] = ["step"]
        self._last_row: list[str] = []  # the last row that was written before the run was resumed

    def begin(self, run: str | None) -> str | None:
        """Reads the columns of an existing file, and removes its last row if that is incomplete.

        Returns `run` unchanged, because a CSV file has no id.
        """
        if self._path.exists():
            rows = self._read()
            self._columns, self._last_row = rows[0], rows[-1]
            if not self._path.read_bytes().endswith(b"\n"):
                self._last_row = rows[-2] if len(rows) > 2 else []
                atomic_write(self._path, lambda path: _write(path, rows[:-1] or [self._columns]))
        return run

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Appends a row, unless it repeats the last row that was written before the run was resumed."""
        last, self._last_row = dict(zip(self._columns, self._last_row, strict=False)), []
        if last.get("step") == str(step) and all(last.get(name) for name in values):
            return
        if new := [name for name in values if name not in self._columns]:
            # The new columns are added on the right, and are empty in all earlier rows.
            rows = self._read()[1:] if self._path.exists() else []
            self._columns = [*self._columns, *new]
            padded = ([*row, *[""] * (len(self._columns) - len(row))] for row in rows)
            atomic_write(self._path, lambda path: _write(path, [self._columns, *padded]))
        row_values = {"step": step, **values}
        with name_in_errors(self._path), self._path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([row_values.get(name, "") for name in self._columns])

    def close(self) -> None:
        """Does nothing, because the file is closed after each row."""

    def _read(self) -> list[list[str]]:
        """Returns all rows of the file, including the header; for an empty file, the header is `step`."""
        with self._path.open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file)) or [["step"]]


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


PARAMETER_LENGTH = 250  # length of a parameter's value, in characters, that every version of MLflow accepts
PARAMETERS_AT_ONCE = 100  # MLflow's limit on the number of parameters in one request


class WandbTracker:
    """Logs the values to a run in Weights & Biases.

    The library is configured by environment variables, for example `WANDB_MODE=offline` or `WANDB_API_KEY`.
    """

    def __init__(self, project: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self._project, self._folder, self._settings = project, folder, settings
        self._run: Any = None

    def begin(self, run: str | None) -> str | None:
        """Opens the run with the id `run`, or a new run with the recipe's settings, and returns the id."""
        import wandb

        # With these settings, the library writes nothing to the console. Without a terminal, it does not ask questions
        # either, which nobody could answer while the run is in the background.
        quiet = wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True, init_timeout=30)
        self._run = wandb.init(
            project=self._project,
            id=run,
            name=self._folder.parent.name,
            dir=os.environ.get("WANDB_DIR", self._folder),
            config=dict(self._settings),
            resume="allow",
            settings=quiet,
        )
        identifier: str = self._run.id
        return identifier

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Logs the values of a step; the service stores repeated values only once."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Finishes the run in Weights & Biases; if training is resumed, the same run is continued."""
        self._run.finish()


class MlflowTracker:
    """Logs the values to a run in MLflow.

    The environment variable `MLFLOW_TRACKING_URI` determines where the run is stored.
    """

    def __init__(self, experiment: str, name: str, settings: Mapping[str, Any]) -> None:
        self._experiment, self._name, self._settings = experiment, name, settings
        self._client: Any = None
        self._run = ""
        self._may_have_values = False  # whether the values of the next step may have been sent before a crash

    def begin(self, run: str | None) -> str | None:
        """Opens the run with the id `run`, or a new run with the recipe's settings as parameters; returns the id."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        if run is not None:
            self._run, self._may_have_values = run, True
            self._client.set_terminated(run, "RUNNING")
            return run
        experiment = self._client.get_experiment_by_name(self._experiment)
        identifier = (
            self._client.create_experiment(self._experiment) if experiment is None else experiment.experiment_id
        )
        self._run = self._client.create_run(identifier, run_name=self._name).info.run_id
        parameters = [Param(name, str(value)[:PARAMETER_LENGTH]) for name, value in flat(self._settings)]
        for start in range(0, len(parameters), PARAMETERS_AT_ONCE):
            self._client.log_batch(self._run, params=parameters[start : start + PARAMETERS_AT_ONCE])
        return self._run

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Logs the values of a step, unless they were sent before the run was resumed."""
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        metrics = [Metric(name, float(value), now, step) for name, value in values.items()]
        if self._may_have_values:
            history = self._client.get_metric_history
            metrics = [
                metric for metric in metrics if all(sent.step != step for sent in history(self._run, metric.key))
            ]
            self._may_have_values = False
        if metrics:
            self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """Marks the run in MLflow as finished; if training is resumed, the same run is continued."""
        self._client.set_terminated(self._run, "FINISHED")
