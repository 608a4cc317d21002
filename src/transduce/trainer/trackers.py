"""Trackers: the metrics of a training in a CSV file, in Weights & Biases or in MLflow, as the training goes on.

A tracker works in a thread of its own, so that it neither stops a training nor slows it. `metrics.jsonl` has every
value whatever becomes of a tracker.
"""

import importlib.util
import json
import math
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from transduce.settings import Spec, validated
from transduce.storage.atomic import atomic_write_text
from transduce.storage.named_errors import name_in_errors
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file

__all__ = ["NO_TRACKERS", "BackgroundTracker", "Tracker", "TrackerChoice", "TrackerState", "start_trackers"]

Say = Callable[[str], None]

MAX_WAITING = 10_000  # records that a tracker may be behind
PATIENCE = 20.0  # seconds for which the end of a training waits for a tracker


class TrackerChoice(NamedTuple):
    """The trackers that a user wants besides `metrics.jsonl` and TensorBoard."""

    csv: bool = False  # a table in the run directory
    wandb: str | None = None  # a project of Weights & Biases
    mlflow: str | None = None  # an experiment of MLflow

    def check(self) -> None:
        """Raises ValueError where the library of a tracker is not installed."""
        for name, wanted in (("wandb", self.wandb), ("mlflow", self.mlflow)):
            if wanted is not None and importlib.util.find_spec(name) is None:
                raise ValueError(f"--{name} {wanted}: its library is missing; pip install 'transduce[{name}]'")


NO_TRACKERS = TrackerChoice()


class TrackerState(Spec):
    """What a tracker has received, in a file of the run: a resumed training goes on there, and no value comes twice."""

    run: str | None = None  # id of the run in the service
    step: int = 0  # the last step of which it has values
    names: tuple[str, ...] = ()  # of the values of this step


class Tracker(Protocol):
    """Receives the metrics of a training. Every method may raise any error, after which no other is called."""

    def begin(self, run: str | None) -> str | None:
        """Opens the run with the id `run`, or a new one, and returns its id."""
        ...

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Receives the finite values of a step; steps do not go back.

        After a crash the first values may be those that the tracker received last, which it must not keep twice.
        """
        ...

    def close(self) -> None:
        """Ends the run, or pauses it."""
        ...


class BackgroundTracker:
    """Passes values to a tracker in a thread; the first error becomes one warning, and the tracker is off."""

    def __init__(self, name: str, tracker: Tracker, state_file: Path, say: Say) -> None:
        self.name, self._tracker, self._file, self._say = name, tracker, state_file, say
        self._queue: queue.Queue[tuple[int, dict[str, float]] | None] = queue.Queue(MAX_WAITING)
        self._state = TrackerState()
        self._error: str | None = None
        self._is_on = True
        # A daemon: a service that does not answer cannot keep the process from ending.
        self._thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self._thread.start()

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Queues the finite numbers of `values`, without waiting; does nothing where the tracker is off."""
        self._warn_of_error()
        numbers = {name: value for name, value in values.items() if _is_finite_number(value)}
        if self._is_on and numbers:
            try:
                self._queue.put_nowait((step, numbers))
            except queue.Full:
                self._turn_off(f"is more than {MAX_WAITING:,} records behind")

    def close(self) -> None:
        """Waits some seconds for the tracker to receive what is queued, and to end."""
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
        self._say(f"warning: {self.name} {reason}; it gets no more values, metrics.jsonl has them all")

    def _work(self) -> None:
        """Runs in the thread."""
        try:
            if (item := self._queue.get()) is None:
                return  # nothing was trained
            self._begin()
            while item is not None:
                self._pass_on(*item)
                item = self._queue.get()
            self._tracker.close()
        except BaseException as error:  # libraries exit too; a thread has nobody else who could report it
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self._error = f"failed ({reason[:300]})"

    def _begin(self) -> None:
        """Goes on with the run of an earlier start, or opens a new one and saves its id."""
        saved = self._read_state()
        run = self._tracker.begin(saved.run)
        self._save(TrackerState(run=run, step=saved.step, names=saved.names))

    def _pass_on(self, step: int, values: dict[str, float]) -> None:
        """Passes on what the tracker does not have yet; a resumed training repeats steps after its checkpoint."""
        state = self._state
        sent = set(state.names) if step == state.step else set()
        if step < state.step or not (new := {name: value for name, value in values.items() if name not in sent}):
            return
        self._tracker.add(step, new)
        self._save(TrackerState(run=state.run, step=step, names=(*sorted(sent), *new)))

    def _read_state(self) -> TrackerState:
        if not self._file.exists():
            return TrackerState()
        values = json.loads(read_regular_file(self._file, MAX_JSON_BYTES))
        return validated(TrackerState, values, place=str(self._file))

    def _save(self, state: TrackerState) -> None:
        """Replaces the state file; it is not flushed, because a power cut may cost a tracker a value."""
        self._state = state
        with name_in_errors(self._file):
            atomic_write_text(self._file, state.model_dump_json(), flushed=False)


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def start_trackers(
    choice: TrackerChoice, run: Path, settings: Mapping[str, Any], say: Say
) -> Sequence[BackgroundTracker]:
    """Starts the chosen trackers of the run directory `run`; `settings` are those of its recipe."""
    folder = run.resolve() / "training"
    trackers: dict[str, tuple[str, Tracker]] = {}
    if choice.csv:
        from transduce.trainer.csv_tracker import CsvTracker

        trackers["csv"] = "the CSV file", CsvTracker(folder / "metrics.csv")
    if choice.wandb is not None:
        from transduce.trainer.tracking_services import WandbTracker

        trackers["wandb"] = "Weights & Biases", WandbTracker(choice.wandb, folder, settings)
    if choice.mlflow is not None:
        from transduce.trainer.tracking_services import MlflowTracker

        trackers["mlflow"] = "MLflow", MlflowTracker(choice.mlflow, run.resolve().name, settings)
    return [
        BackgroundTracker(name, tracker, folder / f"tracker-{key}.json", say)
        for key, (name, tracker) in trackers.items()
    ]
