"""Logs the metrics of a run to `metrics.jsonl`, TensorBoard, the trackers and the console."""

import contextlib
import logging
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transduce.corpus.readers import ParallelText
from transduce.evaluation.validation import ValidationResult, perplexity
from transduce.measure.metric_choice import LABELS
from transduce.run.trackers import BackgroundTracker
from transduce.runtime.json_text import json_text
from transduce.storage.atomic import atomic_write, flush_to_disk
from transduce.storage.locks import FolderIdentity
from transduce.training.loop import StepRecord

_log = logging.getLogger("transduce")

METRICS_LOG = "metrics.jsonl"

EXAMPLES = 3  # number of example translations that are logged after each validation


class MetricsLog:
    """Logs the training steps, validations and events of a run.

    The log writes to files and trackers only if it is `enabled`, which is the case on rank 0 only.
    """

    def __init__(self, directory: Path, minutes: float | None = None, *, enabled: bool = True) -> None:
        self.path, self.minutes, self.enabled = directory / METRICS_LOG, minutes, enabled
        self._folder = FolderIdentity(directory) if enabled and directory.is_dir() else None
        self.total: int | None = None  # total number of steps of the run, or None if it is unknown
        self.elapsed = 0.0  # seconds of training, including the time before the run was resumed
        self._events = directory / "training" / "tensorboard"
        self._event_file: EventFile | None = None
        self._purge_step: int | None = None  # TensorBoard hides the values of earlier files from this step on
        self._pending: list[StepRecord] = []  # steps since the last report
        self.trackers: Sequence[BackgroundTracker] = ()
        self.summary = ""  # loss and speed in the last report, for the progress display

    @property
    def size(self) -> int:
        """The size of `metrics.jsonl` in bytes, or 0 if it does not exist."""
        return self.path.stat().st_size if self.path.exists() else 0

    def truncate(self, size: int, step: int) -> None:
        """Truncates `metrics.jsonl` to `size` bytes, its length when the checkpoint of `step` was saved.

        A file with other hard links is replaced rather than changed, so that a copy of the run stays as it is.

        Raises ValueError if `metrics.jsonl` is a pipe, a folder, or a link, because a link could point to another file.
        """
        if not self.enabled:
            return
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise ValueError(f"{self.path} is a link, a pipe or a folder, and the training writes a file; move it away")
        if self.path.exists():
            if self.path.stat().st_nlink > 1:
                content = self.path.read_bytes()
                atomic_write(self.path, lambda temporary: temporary.write_bytes(content))
            os.truncate(self.path, min(size, self.size))
        self._purge_step = step + 1

    def flush(self) -> int:
        """Flushes `metrics.jsonl` to disk and returns its size in bytes.

        Raises FolderMovedError if the run directory was moved, so that nothing is saved into a second directory.
        """
        self._check_place()
        if self.enabled and self.path.exists():
            flush_to_disk(self.path)
        return self.size

    def add_step(self, record: StepRecord) -> None:
        """Adds the metrics of a step to the next report."""
        self._pending.append(record)

    def report(self) -> None:
        """Logs the metrics of the steps since the last report, except for skipped steps.

        Losses are averaged over target tokens; the learning rate and the gradient norm are those of the last step.
        """
        records, self._pending = [record for record in self._pending if not record.skipped], []
        if not records:
            return
        tokens, seconds = sum(record.tokens for record in records), sum(record.seconds for record in records)
        last = records[-1]
        values = {
            "step": last.step,
            "epoch": last.epoch,
            "loss": sum(record.loss * record.tokens for record in records) / tokens,
            "perplexity": perplexity(sum(record.unsmoothed * record.tokens for record in records) / tokens),
            "rate": last.rate,
            "gradient_norm": last.gradient_norm,
            "tokens": tokens,
            "tokens_per_second": tokens / seconds,
            "waiting": sum(record.waiting for record in records) / seconds,
        }
        self._write(values)
        time_used = self._time_used(last.step, seconds / len(records))
        self.summary = f"loss {values['loss']:.3f}, {values['tokens_per_second']:,.0f} tokens/s, {time_used}"
        total = f"/{self.total}" if self.total else ""
        _log.info(
            f"step {last.step}{total}  loss {values['loss']:.3f}  perplexity {values['perplexity']:.2f}  "
            f"rate {last.rate:.2e}  gradient {last.gradient_norm:.2f}  {values['tokens_per_second']:,.0f} tokens/s  "
            f"waiting {values['waiting']:.1%}  {time_used}"
        )

    def _time_used(self, step: int, pace: float) -> str:
        """Returns text with the minutes used so far, for example "12.3 of 60 min" or "12.3 min, about 45 left".

        If the run has no time limit, the time left is estimated from `pace`, in seconds per step.
        """
        used = f"{self.elapsed / 60:.1f}"
        if self.minutes is not None:
            return f"{used} of {self.minutes:g} min"
        left = f", about {(self.total - step) * pace / 60:.0f} left" if self.total else ""
        return f"{used} min{left}"

    def log_event(self, step: int, event: str) -> None:
        """Logs the description of an event, after reporting the steps before it."""
        self.report()
        self._write({"step": step, "event": event})
        _log.info(f"step {step}: {event}")

    def log_validation(
        self, step: int, elapsed: float, result: ValidationResult, corpus: ParallelText, seconds: float
    ) -> None:
        """Logs the result of a validation, and three example translations on the console.

        The validation took place after `elapsed` seconds of training, and lasted `seconds`.
        """
        values: dict[str, Any] = {"step": step, **_values_of(result)}
        if result.score is not None:
            values["signature"] = result.score.signature
        for name, part in result.parts.items():
            values |= {f"{key}.{name}": value for key, value in _values_of(part).items()}
        self._write(values | {"validation_seconds": round(seconds, 1), "elapsed": round(elapsed, 1)})
        mean = f", mean of {len(result.parts)}" if result.parts else ""
        times = f"after {elapsed / 60:.1f} min, took {seconds:.1f} s"
        _log.info(f"validation after step {step}{mean}: {_summary(result)}  ({times})")
        for name, part in result.parts.items():
            _log.info(f"  {name}: {_summary(part)}")
        # Every validation shows the same three lines, spread over the corpus, so that their progress can be followed.
        for index in [len(result.outputs) * part // (EXAMPLES + 1) for part in range(1, EXAMPLES + 1)]:
            if index < len(result.outputs):
                _log.info(f"  source     {corpus.source[index]}")
                _log.info(f"  reference  {corpus.target[index]}")
                _log.info(f"  output     {result.outputs[index]}")

    def log_test(self, step: int, name: str, scores: Mapping[str, Any]) -> None:
        """Appends the scores of the models on the test set `name` to `metrics.jsonl`."""
        self._append({"step": step, "test": name, **scores})

    def close(self) -> None:
        """Reports the steps since the last report, and closes the TensorBoard event file."""
        self.report()
        self._close_event_file()

    def _write(self, values: dict[str, Any]) -> None:
        """Appends a record to `metrics.jsonl`, and sends its numbers to TensorBoard and the trackers."""
        if self.enabled:
            self._append(values)
            numbers = {
                name: value for name, value in values.items() if name != "step" and isinstance(value, int | float)
            }
            self._plot(values["step"], numbers)
            for tracker in self.trackers:
                tracker.add(values["step"], numbers)

    def _append(self, values: dict[str, Any]) -> None:
        """Appends a record to `metrics.jsonl`.

        If that fails, removes the incomplete line and logs a warning. Raises FolderMovedError like `flush`.
        """
        self._check_place()
        size = self.size
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json_text(values) + "\n")
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(self.path, size)
            _log.warning(f"warning: could not write the metrics log: {error}")

    def _check_place(self) -> None:
        if self._folder is not None:
            self._folder.check("training")

    def _plot(self, step: int, numbers: Mapping[str, float]) -> None:
        """Writes numbers to the TensorBoard event file, if TensorBoard is installed.

        If writing fails, a warning is logged and the file is closed; the next values are written to a new file.
        """
        if find_spec("tensorboard") is None:
            return
        try:
            self._event_file = self._event_file or EventFile(self._events, self._purge_step)
            self._event_file.add(step, numbers)
            self._purge_step = None
        except OSError as error:
            self._close_event_file()
            _log.warning(f"warning: could not write for TensorBoard: {error}")

    def _close_event_file(self) -> None:
        """Closes the event file and ignores errors of the disk, which may lose the last values."""
        event_file, self._event_file = self._event_file, None
        if event_file is not None:
            with contextlib.suppress(OSError):
                event_file.close()


def _values_of(result: ValidationResult) -> dict[str, float]:
    """Returns the numbers of a validation result, by their keys in `metrics.jsonl`."""
    numbers = {
        "validation_loss": result.loss,
        "validation_perplexity": result.perplexity,
        "accuracy": result.accuracy,
    }
    if result.score is None or math.isnan(result.score.score):
        return numbers
    return {**numbers, result.score.metric if result.score.metric in LABELS else "score": result.score.score}


def _summary(result: ValidationResult) -> str:
    """Formats the numbers of a validation result for the console."""
    score = f"  {result.score.label} {result.score.score:.2f}" if result.score else ""
    return f"loss {result.loss:.3f}  perplexity {result.perplexity:.2f}  accuracy {result.accuracy:.1%}{score}"


class EventFile:
    """Writes numbers to a new TensorBoard event file.

    Its methods raise OSError if the file cannot be written. PyTorch's `SummaryWriter` is not used, because it writes in
    a thread, which would print a traceback and lose values in this case.
    """

    def __init__(self, directory: Path, purge_step: int | None) -> None:
        """Creates a file in `directory`.

        If `purge_step` is given, TensorBoard hides the values of earlier files from that step on.
        """
        # TensorBoard is imported here because the import is slow.
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        directory.mkdir(parents=True, exist_ok=True)
        # The time is in nanoseconds, because TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}.0"
        self._records = RecordWriter((directory / name).open("wb"))
        self._write(file_version="brain.Event:2")
        if purge_step is not None:
            self._write(step=purge_step, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of a step and flushes them."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self._write(step=step, summary=summary)
        self._records.flush()

    def close(self) -> None:
        """Closes the file; raises OSError if buffered values cannot be written."""
        self._records.close()

    def _write(self, **fields: object) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
