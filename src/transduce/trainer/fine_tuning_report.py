"""The comparison of a fine-tuned model with the model that it began with: the test sets of both, before and after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transduce.model_directory import Model, fingerprint, write_card_section
from transduce.recipe import Recipe
from transduce.trainer.evaluation import score_test
from transduce.trainer.fine_tuning import FineTuning, NamedScore
from transduce.trainer.metrics_log import MetricsLog
from transduce.trainer.run_directory import has_saved
from transduce.translation.batching import LineTooLargeError
from transduce.translation.source_request import request_for_corpus
from transduce.translation.translator import Translator

__all__ = ["FineTuningReport"]

HEADING = "## Before and after fine-tuning"
RESAMPLES = 1000  # for confidence intervals
UNMEASURED = "not measured"


@dataclass(frozen=True)
class FineTuningReport:
    """Measures the test sets of one training once with each of both models, and reports the scores."""

    recipe: Recipe
    out: Path
    device: torch.device
    say: Callable[[str], None]

    def measure_before(self) -> None:
        """Measures the model that a new training begins with, where that has not been done."""
        record = FineTuning.read(self.out)
        if record is not None and not has_saved(self.out):
            if not self.recipe.data.test:
                self.say("`data.test` names no test set: nothing is compared with the model of --from")
            before = self._measure(Path(record.start.directory), record.before)
            record.model_copy(update={"before": before}).write(self.out)

    def report(self, step: int) -> None:
        """Measures the trained model, and says, logs and writes into the model card what has changed.

        Does nothing where the starting model was not measured. Where the trained model is unchanged, the stored scores
        are said again.
        """
        record = FineTuning.read(self.out)
        if record is None or not record.before:
            return
        model = fingerprint(self.out)
        if record.model != model:
            record = record.model_copy(update={"after": self._measure(self.out, ()), "model": model})
            self._log(step, record)
            record.write(self.out)
        for line in _lines(record):
            self.say(line)

    def _measure(self, directory: Path, earlier: Sequence[NamedScore]) -> tuple[NamedScore, ...]:
        """Returns the scores of a model on all test sets; takes those of `earlier` that are of the same corpus."""
        measured = {(score.name, str(score.corpus)): score for score in earlier if score.score}
        scores, config = [], Model.read_config(directory)
        for name, spec in self.recipe.data.test.items():
            corpus = spec.as_dictionary()
            if (name, str(corpus)) in measured:
                scores.append(measured[name, str(corpus)])
                continue
            self.say(f"testing {directory} on {name}")
            try:
                request = request_for_corpus(config, self.recipe.data.with_direction(spec))
                translator = Translator.load(directory, device=str(self.device), **request._asdict())
                language = request.to or config.target_language
                score = score_test(spec, name, translator, language, RESAMPLES)
                scores.append(NamedScore(name=name, corpus=corpus, score=score))
            except (OSError, ValueError, LineTooLargeError) as error:
                self.say(f"note: test set {name} is left out: {_fault(error)}")
                scores.append(NamedScore(name=name, corpus=corpus, fault=_fault(error)))
        return tuple(scores)

    def _log(self, step: int, record: FineTuning) -> None:
        """Writes the comparison into the metrics log and the model card; a failure is a warning."""
        log = MetricsLog(self.out, self.say, None)
        for name, before, after in _rows(record):
            log.log_test(step, name, {"before": _values(before), "after": _values(after)})
        try:
            write_card_section(self.out, HEADING, _markdown(record))
        except OSError as error:
            self.say(f"warning: could not write the model card: {error}")


def _fault(error: Exception) -> str:
    """Returns why a test set could not be measured."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


def _rows(record: FineTuning) -> list[tuple[str, NamedScore | None, NamedScore]]:
    """Returns the name of each test set and its scores; None before where that was another corpus."""
    before = {(score.name, str(score.corpus)): score for score in record.before}
    return [(after.name, before.get((after.name, str(after.corpus))), after) for after in record.after]


def _values(score: NamedScore | None) -> dict[str, Any] | None:
    """Returns a score for the metrics log; None where there is none."""
    if score is None or score.score is None:
        return None
    metric, points, signature, low, high = score.score
    return {metric: points, "low": low, "high": high, "signature": signature}


def _cells(record: FineTuning) -> list[tuple[str, str, str]]:
    """Returns the table: its head, then the name and both scores of each test set."""
    label = next((score.score.label for score in (*record.before, *record.after) if score.score), "score")
    head = "test set", f"{label} before", f"{label} after"
    return [head, *((name, _cell(before), _cell(after)) for name, before, after in _rows(record))]


def _cell(score: NamedScore | None) -> str:
    """Returns a score with its confidence interval."""
    if score is None or score.score is None:
        return UNMEASURED
    _, points, _, low, high = score.score
    return f"{points:.2f} [{low:.2f}, {high:.2f}]"


def _signatures(record: FineTuning) -> list[str]:
    """Returns the signatures of the scores, each once."""
    return list(dict.fromkeys(score.score.signature for score in record.after if score.score))


def _lines(record: FineTuning) -> list[str]:
    """Returns the table in columns, with its signatures below."""
    cells = _cells(record)
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return [*rows, *_signatures(record)]


def _markdown(record: FineTuning) -> str:
    """Returns the section of the model card."""
    head, *rows = (f"| {' | '.join(row)} |" for row in _cells(record))
    name = Path(record.start.directory).name
    signatures = ", ".join(f"`{signature}`" for signature in _signatures(record))
    lines = [f"Test scores of `{name}`, with which the training began, and of this model, with 95 % intervals.", ""]
    return "\n".join([*lines, head, "|---|---|---|", *rows, "", f"Signature: {signatures or 'none'}", ""])
