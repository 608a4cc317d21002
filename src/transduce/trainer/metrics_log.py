"""The journal of a training: `metrics.jsonl`, TensorBoard, and the lines that people watch."""

import contextlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transduce.storage.atomic import flush_to_disk
from transduce.trainer.validation import ParallelText, ValidationResult, perplexity
from transduce.training import StepRecord

__all__ = ["MetricsLog"]

EXAMPLES = 3


class MetricsLog:
    """Writes records of steps and validations; cut back to a checkpoint's length when a training goes on from it.

    Where it is not `enabled`, in all processes of a training but the first, nothing is written.
    """

    def __init__(self, directory: Path, say: Callable[[str], None], total: int | None, *, enabled: bool = True) -> None:
        self.path, self.say, self.total, self.enabled = directory / "metrics.jsonl", say, total, enabled
        self._events = directory / "training" / "tensorboard"
        self._board: Any = None
        self._pending: list[StepRecord] = []
        self.summary = ""  # loss and speed of the last report

    @property
    def size(self) -> int:
        """Bytes of `metrics.jsonl` so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, size: int, step: int) -> None:
        """Forgets what was written after `size` bytes, which is after `step`."""
        if not self.enabled:
            return
        if self.path.exists():
            os.truncate(self.path, min(size, self.size))
        self._board = self._open_board(step + 1)

    def flush(self) -> int:
        """Sees `metrics.jsonl` onto the disk, and gives its bytes: a checkpoint says how long it is."""
        if self.enabled and self.path.exists():
            flush_to_disk(self.path)
        return self.size

    def note(self, record: StepRecord) -> None:
        """Takes a step's record into the next report."""
        self._pending.append(record)

    def report(self) -> None:
        """Writes and says what the steps since the last report were like, on average."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        records = [record for record in pending if not record.skipped]
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
        self.summary = f"loss {values['loss']:.3f}, {values['tokens_per_second']:,.0f} tokens/s"
        total = f"/{self.total}" if self.total else ""
        self.say(
            f"step {last.step}{total}  loss {values['loss']:.3f}  perplexity {values['perplexity']:.2f}  "
            f"rate {last.rate:.2e}  gradient {last.gradient_norm:.2f}  {values['tokens_per_second']:,.0f} tokens/s  "
            f"waiting {values['waiting']:.1%}"
        )

    def log_event(self, step: int, what: str) -> None:
        """Writes and says what is neither a report nor a validation."""
        self.report()
        self._write({"step": step, "event": what})
        self.say(f"step {step}: {what}")

    def log_validation(self, step: int, seconds: float, found: ValidationResult, corpus: ParallelText) -> None:
        """Writes and says what a validation found, with three translations to look at."""
        values: dict[str, Any] = {
            "step": step,
            "validation_loss": found.loss,
            "validation_perplexity": found.perplexity,
            "accuracy": found.accuracy,
        }
        if found.bleu is not None:
            values |= {"bleu": found.bleu.score, "signature": found.bleu.signature}
        self._write(values | {"elapsed": round(seconds, 1)})
        bleu = f"  BLEU {found.bleu.score:.2f}" if found.bleu else ""
        self.say(
            f"validation after step {step}: loss {found.loss:.3f}  perplexity {found.perplexity:.2f}  "
            f"accuracy {found.accuracy:.1%}{bleu}  ({seconds / 60:.1f} min)"
        )
        # The same three each time, spread over the corpus, so that one can watch them change.
        for place in [len(found.outputs) * part // (EXAMPLES + 1) for part in range(1, EXAMPLES + 1)]:
            if place < len(found.outputs):
                self.say(f"  source     {corpus.source[place]}")
                self.say(f"  reference  {corpus.target[place]}")
                self.say(f"  output     {found.outputs[place]}")

    def close(self) -> None:
        """Reports what is pending and sees all of it written."""
        self.report()
        self._close_board()

    def _write(self, values: dict[str, Any]) -> None:
        """Into both; a disk that is full stops no training, and leaves no half of a line."""
        if not self.enabled:
            return
        size = self.size
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({name: _plain(value) for name, value in values.items()}, allow_nan=False) + "\n")
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(self.path, size)
            self.say(f"warning: could not write the journal: {error}")
        self._plot(values)

    def _plot(self, values: dict[str, Any]) -> None:
        """For TensorBoard, whose writer, once it has failed, fails for ever: the next values get a new one."""
        try:
            self._board = self._board or self._open_board(None)
            for name, value in values.items():
                if name != "step" and isinstance(value, int | float):
                    self._board.add_scalar(name, value, values["step"])
        except OSError as error:
            self._close_board()
            self.say(f"warning: could not write for TensorBoard: {error}")

    def _close_board(self) -> None:
        """Sees all plots written, as far as that is possible."""
        board, self._board = self._board, None
        if board is not None:
            with contextlib.suppress(OSError):
                board.close()

    def _open_board(self, purge: int | None) -> Any:
        # Imported where it is used: TensorBoard takes a second to come.
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self._events), purge_step=purge)


def _plain(value: Any) -> Any:
    """The value as JSON has it, which knows no infinite number and nothing that is none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
