"""Fine-tuning: runs that start from the weights and subwords of another model.

The file `fine_tuning.json` in the run's folder `training` records which model the run started from, so that the run can
be resumed with or without `--from`. When the run ends, a report compares the two models, before and after fine-tuning,
on the recipe's test sets.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from transduce.corpus.store.store_description import earlier_description
from transduce.evaluation.score_test_set import request_for_corpus, score_test
from transduce.evaluation.validation import ValidationScore
from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary, build_without_weights
from transduce.model_directory.manifest import fingerprint
from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_card_section
from transduce.recipe.recipe import Recipe, load
from transduce.recipe.starting_point import StartingPoint
from transduce.run.metrics_log import MetricsLog
from transduce.run.run_directory import FINE_TUNING, check_can_go_on, has_checkpoint, has_saved
from transduce.runtime.distributed import restart_count
from transduce.settings import Spec, check_version, from_satellite, parse_json, validated
from transduce.storage.atomic import atomic_write_text
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.vocabulary_growth import spellings
from transduce.translation.batching import LineTooLargeError
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

HEADING = "## Before and after fine-tuning"
RESAMPLES = 1000  # number of bootstrap resamples for the confidence intervals
UNMEASURED = "not measured"


class NamedScore(Spec):
    """The score of a model on one test set or, if it could not be computed, the reason in `fault`."""

    name: str
    corpus: dict[str, Any]
    score: ValidationScore | None = None
    fault: str | None = None


class FineTuning(Spec):
    """The content of `fine_tuning.json`, the record of a run that started from another model."""

    version: Literal[1] = 1
    start: StartingPoint
    base: str  # fingerprint of the model given by --from
    grow_vocabulary: int | None = None  # maximum number of subwords added to each side
    before: tuple[NamedScore, ...] = ()  # scores of the model given by --from
    after: tuple[NamedScore, ...] = ()  # scores of the fine-tuned model
    model: str | None = None  # fingerprint of the fine-tuned model to which the scores in `after` belong

    @classmethod
    def read(cls, out: Path) -> "FineTuning | None":
        """Reads the record of the run in `out`; returns None if the run started with random weights.

        Raises ValueError if the record is damaged.
        """
        path = out / "training" / FINE_TUNING
        if not path.exists():
            return None
        try:
            values = parse_json(read_regular_file(path, MAX_JSON_BYTES), place=str(path))
            check_version(values, 1, place=str(path))
            return validated(cls, values, place=str(path))
        except ValueError as error:
            raise ValueError(
                f"{error}\nTake that file from a backup, or begin anew with --restart (what is there is kept)"
            ) from None

    def write(self, out: Path) -> None:
        """Writes the record of the run in `out`, whose folder `training` must exist."""
        atomic_write_text(out / "training" / FINE_TUNING, self.model_dump_json(indent=2) + "\n")


class Start(NamedTuple):
    """Describes how a run starts."""

    record: FineTuning | None = None  # the record of the run, if it is a fine-tuning run
    directory: Path | None = None  # the directory of the model to start from, if it has to be read


def load_training_recipe(
    path: Path, changes: Iterable[str], out: Path, *, start_from: Path | None, restart: bool
) -> Recipe:
    """Loads the recipe of a run in `out` from the file `path`, and applies `changes` to it.

    If the run starts from another model, the settings of that model are the defaults of the recipe.
    """
    record, has_begun = _earlier(out, start_from, restart=restart)
    if start_from is not None and not has_begun:
        return load(path, changes, StartingPoint.of(start_from))
    return load(path, changes, record.start if record else None)


def plan_start(
    recipe: Recipe, out: Path, start_from: Path | str | None, grow_vocabulary: int | None, *, restart: bool
) -> Start:
    """Determines how a new or resumed run in `out` starts.

    Returns the record of a fine-tuning run, and the directory of the model that has to be read; either may be None.
    Raises ValueError if the recipe does not match the model that the run starts from, or if `grow_vocabulary` differs
    from the value with which the run was begun.
    """
    start_from = None if start_from is None else Path(start_from)
    record, has_begun = _earlier(out, start_from, restart=restart)
    if has_begun:
        before = record.grow_vocabulary if record else None
        if grow_vocabulary not in (None, before):
            raise ValueError(
                f"--grow-vocabulary {grow_vocabulary}: {out} was begun with {before or 'none'}; leave it out, or train "
                "into another directory"
            )
        # A run with a checkpoint needs the model that it started from only if the token store is incomplete. Otherwise
        # that model may have been deleted.
        has_store = earlier_description(out / "training" / "store") is not None
        is_complete = has_checkpoint(out) and (record is None or has_store)
        return Start(record, None if is_complete else _first_model(out, record, start_from))
    if start_from is None and record is not None:
        start_from, grow_vocabulary = Path(record.start.directory), grow_vocabulary or record.grow_vocabulary
    if start_from is None:
        if grow_vocabulary is not None:
            raise ValueError("--grow-vocabulary adds to the vocabulary of another model: name the model with --from")
        recipe.data.check_held_out()
        return Start()
    start = StartingPoint.of(start_from)
    start.check_fits(recipe)
    new = FineTuning(start=start, base=fingerprint(start_from), grow_vocabulary=grow_vocabulary)
    # If an earlier start was stopped before its first checkpoint, its record may already contain scores of this model.
    return Start(record if record and record.replaced(before=()) == new else new, start_from)


def _first_model(out: Path, record: FineTuning | None, start_from: Path | None) -> Path | None:
    """Returns the directory of the model from which a run without a checkpoint has to start again.

    If the run has no record, returns `start_from`, which may be None. Raises ValueError if the directory does not
    contain the model with which the run was begun.
    """
    if record is None:
        return start_from
    directory = start_from or Path(record.start.directory)
    if fingerprint(directory) != record.base:
        raise ValueError(
            f"{directory} is not the model with which {out} was begun: name that model with --from, or begin anew with "
            "--restart (what is there is kept)"
        )
    return directory


def _earlier(out: Path, start_from: Path | None, *, restart: bool) -> tuple[FineTuning | None, bool]:
    """Returns the record of the run in `out`, and whether that run has saved a model or a checkpoint.

    A restart ignores the earlier run, so for a restart the result is (None, False). Raises ValueError if a restart
    would move the model given by --from aside, if a restart omits --from although the earlier run started from another
    model, or if the run in `out` cannot be resumed.
    """
    if restart and restart_count() == 0:
        if start_from is not None and start_from.resolve() == out.resolve():
            raise ValueError(f"--restart moves {out} aside, which --from names: train into another directory")
        if start_from is None and (out / "training" / FINE_TUNING).exists():
            raise ValueError(
                f"--restart: {out} began with another model: name the model again with --from; to begin without one, "
                "train into another directory"
            )
        return None, False
    check_can_go_on(out)
    return FineTuning.read(out), has_saved(out)


@dataclass(frozen=True)
class FineTuningReport:
    """Evaluates the model before and after fine-tuning on the recipe's test sets, and reports the scores.

    The scores are stored in the record of the run, so that no model is evaluated twice.
    """

    recipe: Recipe
    out: Path
    device: torch.device

    def measure_before(self) -> None:
        """Evaluates the model that a new run starts from, on all test sets on which it has not been evaluated yet."""
        record = FineTuning.read(self.out)
        if record is not None and not has_saved(self.out):
            if not self.recipe.data.test:
                _log.info("`data.test` names no test set: nothing is compared with the model of --from")
            before = self._measure(Path(record.start.directory), record.before)
            record.replaced(before=before).write(self.out)

    def report(self, step: int) -> None:
        """Evaluates the fine-tuned model, logs the comparison with the original one, and adds it to the model card.

        If the fine-tuned model has not changed since it was last evaluated, its stored scores are logged again. Does
        nothing if the original model was not evaluated.
        """
        record = FineTuning.read(self.out)
        if record is None or not record.before:
            return
        model = fingerprint(self.out)
        if record.model != model:
            record = record.replaced(after=self._measure(self.out, ()), model=model)
            self._log(step, record)
            record.write(self.out)
        for line in _lines(record):
            _log.info(line)

    def _measure(self, directory: Path, earlier: Sequence[NamedScore]) -> tuple[NamedScore, ...]:
        """Returns the scores of the model in `directory` on all test sets.

        Test sets for which `earlier` has a score on the same corpus are not evaluated again. A test set that cannot be
        evaluated gets no score, and the reason is logged.
        """
        measured = {(score.name, str(score.corpus)): score for score in earlier if score.score}
        scores, config = [], Model.read_config(directory)
        for name, spec in self.recipe.data.test.items():
            corpus = spec.as_dictionary()
            if (name, str(corpus)) in measured:
                scores.append(measured[name, str(corpus)])
                continue
            _log.info(f"testing {directory} on {name}")
            try:
                request = request_for_corpus(config, self.recipe.data.with_direction(spec))
                translator = Translator.load(directory, device=str(self.device), **request._asdict())
                language = request.to or config.target_language
                score = score_test(spec, name, translator, language, RESAMPLES)
                scores.append(NamedScore(name=name, corpus=corpus, score=score))
            except (OSError, ValueError, LineTooLargeError) as error:
                _log.info(f"note: test set {name} is left out: {_fault(error)}")
                scores.append(NamedScore(name=name, corpus=corpus, fault=_fault(error)))
        return tuple(scores)

    def _log(self, step: int, record: FineTuning) -> None:
        """Writes the comparison to the metrics log and the model card; logs a warning if either cannot be written."""
        log = MetricsLog(self.out)
        for name, before, after in _rows(record):
            log.log_test(step, name, {"before": _values(before), "after": _values(after)})
        try:
            write_card_section(self.out, HEADING, _markdown(record))
        except OSError as error:
            _log.warning(f"warning: could not write the model card: {error}")


def _fault(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


def _rows(record: FineTuning) -> list[tuple[str, NamedScore | None, NamedScore]]:
    """Returns, for each test set, its name and the scores before and after fine-tuning.

    The first of the two scores is None if it was computed on a different corpus.
    """
    before = {(score.name, str(score.corpus)): score for score in record.before}
    return [(after.name, before.get((after.name, str(after.corpus))), after) for after in record.after]


def _values(score: NamedScore | None) -> dict[str, Any] | None:
    """Converts a score to values for the metrics log; returns None if there is no score."""
    if score is None or score.score is None:
        return None
    metric, points, signature, low, high = score.score
    return {metric: points, "low": low, "high": high, "signature": signature}


def _cells(record: FineTuning) -> list[tuple[str, str, str]]:
    """Returns the cells of the comparison table: a header, then one row for each test set with its two scores."""
    label = next((score.score.label for score in (*record.before, *record.after) if score.score), "score")
    head = "test set", f"{label} before", f"{label} after"
    return [head, *((name, _cell(before), _cell(after)) for name, before, after in _rows(record))]


def _cell(score: NamedScore | None) -> str:
    """Formats a score with its confidence interval."""
    if score is None or score.score is None:
        return UNMEASURED
    _, points, _, low, high = score.score
    return f"{points:.2f} [{low:.2f}, {high:.2f}]"


def _signatures(record: FineTuning) -> list[str]:
    return list(dict.fromkeys(score.score.signature for score in record.after if score.score))


def _lines(record: FineTuning) -> list[str]:
    """Formats the comparison table for the console, with aligned columns and the score signatures below."""
    cells = _cells(record)
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return [*rows, *_signatures(record)]


def _markdown(record: FineTuning) -> str:
    """Formats the comparison table as a section of the model card, in Markdown."""
    head, *rows = (f"| {' | '.join(row)} |" for row in _cells(record))
    name = Path(record.start.directory).name
    signatures = ", ".join(f"`{signature}`" for signature in _signatures(record))
    lines = [f"Test scores of `{name}`, with which the training began, and of this model, with 95 % intervals.", ""]
    return "\n".join([*lines, head, "|---|---|---|", *rows, "", f"Signature: {signatures or 'none'}", ""])


def grown_weights(base: Model, source: TokenVocabulary, target: TokenVocabulary) -> dict[str, Tensor]:
    """Returns the weights of `base`, extended by rows for the tokens that `source` and `target` have gained.

    Each new row of an embedding or output matrix is initialised to the mean of several old rows:

    - for a new subword, the rows of the old tokens that spell it;
    - for a new tree symbol, the rows of the old symbols of the same kind;
    - for a new tag, all old rows.

    For sentences that consist only of old tokens, the hidden states are the same as in `base`. The logit of a new token
    is the mean of the logits of the old tokens from which it was initialised, so at least one of these is still at
    least as probable as the new token. The probabilities of all old tokens decrease by the same factor, so that their
    ratios are unchanged.
    """
    weights = weights_of(base.module)
    for names, before, now in zip(
        _tables(base.config.model, base.config.vocabulary), (base.source, base.target), (source, target), strict=True
    ):
        if now.size > before.size:
            origins = _origins(now, before.size)
            for name in names:
                means = torch.stack([weights[name][tokens].mean(0) for tokens in origins])
                weights[name] = torch.cat([weights[name], means])
    return weights


def _origins(vocabulary: TokenVocabulary, size: int) -> list[list[int]]:
    """Returns, for each new token, the old tokens whose rows are averaged to initialise its row.

    The new tokens are those with an id of at least `size`.
    """
    if isinstance(vocabulary, SymbolVocabulary):
        same_kind: Callable[[SymbolVocabulary, int, int], list[int]]
        same_kind = from_satellite("transduce.parsing.tree_symbols:same_kind")
        return [same_kind(vocabulary, token, size) for token in range(size, vocabulary.size)]
    assert isinstance(vocabulary, Subwords), "only BPE and the symbols of trees grow"
    return spellings(vocabulary, size)


def _tables(spec: ModelSpec, vocabulary: Vocabulary) -> tuple[list[str], list[str]]:
    """Returns the names of the parameters with one row per source token, and of those with one row per target token.

    If both sides share their embeddings, all names are in the first list.
    """

    def shapes(more_source: int, more_target: int) -> dict[str, torch.Size]:
        larger = Vocabulary(source=vocabulary.source + more_source, target=vocabulary.target + more_target)
        return {name: parameter.shape for name, parameter in build_without_weights(spec, larger).named_parameters()}

    def changed(more_source: int, more_target: int) -> list[str]:
        other = shapes(more_source, more_target)
        return [name for name, shape in shapes(0, 0).items() if other[name] != shape]

    return (changed(1, 1), []) if spec.embeddings == "shared" else (changed(1, 0), changed(0, 1))
