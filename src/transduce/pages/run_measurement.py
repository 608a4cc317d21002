"""What a report shows: the training of each run, and its translations of the test sets."""

import functools
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec, ParallelCorpus
from transduce.corpus.readers import ParallelText, read_parallel_text
from transduce.evaluation.score_test_set import TranslatedTest, request_for_corpus, translate_test
from transduce.measure.system_comparison import SystemScores, score_systems
from transduce.model_directory.config import Config
from transduce.model_directory.manifest import RECIPE
from transduce.model_directory.model import Model
from transduce.recipe.model_summary import summarise_model
from transduce.run.metrics_log import METRICS_LOG
from transduce.text.directions import Direction
from transduce.translation.confidence import CONFIDENCE, Calibration, Reliability
from transduce.translation.results import Explanation
from transduce.translation.search_method import search_method
from transduce.translation.source_request import SourceRequest, target_language_of
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

EXPLAINED = 3  # sentences whose attention is shown
EXPLAINED_WORDS = range(5, 16)  # words of such a sentence


class Curve(NamedTuple):
    """A value that was logged during a training, by its steps."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


class RunReport(NamedTuple):
    """A run: its model, its settings and its training. Seconds and tokens are of the steps in the metrics log."""

    name: str
    config: Config
    parameters: int
    seconds: float
    tokens: int
    curves: Mapping[str, Curve]  # by the names of the metrics log
    recipe: str  # as the run resolved it
    reliability: Reliability | None  # of the confidence in its translations


class TestSetReport(NamedTuple):
    """A test set, and each run's translations of it. Scores are in the order of the runs."""

    name: str
    corpus: ParallelText
    outputs: Sequence[Sequence[str]]
    seconds: Sequence[float]
    systems: SystemScores  # the first run is the baseline

    @property
    def anchor(self) -> str:
        """The name as part of an address."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name)

    @property
    def speeds(self) -> list[str]:
        """The sentences that each run has translated a second."""
        return [f"{len(self.outputs[0]) / seconds:,.1f}" if seconds else "" for seconds in self.seconds]


class ModelReport(NamedTuple):
    """Everything that a report shows; `explanations` are of the first run."""

    runs: Sequence[RunReport]
    tests: Sequence[TestSetReport]
    explanations: Sequence[Explanation]


def measure_runs(runs: Sequence[Path], tests: Mapping[str, CorpusSpec], device: str, bootstrap: int) -> ModelReport:
    """Translates the test sets with each run and measures the translations.

    The scores are those of `transduce evaluate`. Raises ValueError for a parser, and for a run that does not translate
    the direction of a test set.
    """
    reports = [_read_run(run) for run in runs]
    for report in reports:
        own = Direction(report.config.source_language, report.config.target_language)
        for name, spec in tests.items() if not report.config.directions else ():
            wanted = spec.languages_or(Direction(None, None)) if isinstance(spec, ParallelCorpus) else own
            if not own.is_same(wanted):
                raise ValueError(
                    f"{report.name} translates {own}, and the test set {name} {wanted}: choose test sets with --test, "
                    "or leave the run out"
                )
    corpora = {name: read_parallel_text(spec) for name, spec in tests.items()}
    translated: dict[str, list[TranslatedTest]] = {name: [] for name in tests}
    explanations: list[Explanation] = []
    for run, report in zip(runs, reports, strict=True):

        @functools.cache  # test sets of one direction share a translator
        def load(request: SourceRequest, run: Path = run) -> Translator:
            return Translator.load(run, device=device, **request._asdict())

        for name, spec in tests.items():
            _log.info(f"{report.name} translates {name}, {len(corpora[name].source):,} sentences")
            translator, method = load(request_for_corpus(report.config, spec)), search_method(report.config.decoding)
            translated[name].append(translate_test(corpora[name], (), None, None, translator, method))
            if run == runs[0] and name == next(iter(tests)):
                explanations = _explain(translator, corpora[name].source)
    measured, config = [], reports[0].config
    for name, spec in tests.items():
        corpus, outputs = corpora[name], [one.lines for one in translated[name]]
        language = target_language_of(config, request_for_corpus(config, spec))
        systems = score_systems(outputs, corpus.target, language=language, bootstrap=bootstrap)
        measured.append(TestSetReport(name, corpus, outputs, [one.seconds for one in translated[name]], systems))
    return ModelReport(reports, measured, explanations)


def _read_run(run: Path) -> RunReport:
    """Reads what a model directory says of its training; raises ValueError for a parser."""
    config = Model.read_config(run)
    if config.linearisation is not None:
        raise ValueError(f"{run} is a parser: `transduce evaluate` measures its trees")
    records = _read_metrics(run / METRICS_LOG)
    steps = [record for record in records if "tokens_per_second" in record]
    recipe = run / RECIPE
    return RunReport(
        name=run.resolve().name,
        config=config,
        parameters=summarise_model(str(run.resolve()), None)["parameters"],
        seconds=sum(record["tokens"] / record["tokens_per_second"] for record in steps if record["tokens_per_second"]),
        tokens=sum(record["tokens"] for record in steps),
        curves=_curves(records),
        recipe=recipe.read_text("utf-8") if recipe.is_file() else "",
        reliability=Calibration.read(run).reliability if (run / CONFIDENCE).exists() else None,
    )


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    """Reads the records of a metrics log; a line that is no record, as after a crash, is left out."""
    records = []
    for line in path.read_text("utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
    return records


def _curves(records: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """Returns the curves of the training loss, the validation loss and the validation score.

    The last step may have several validations: that of the training comes first, those of an average follow. Where a
    training goes back to earlier weights, the steps that it takes again replace the ones before.
    """
    curves: dict[str, list[tuple[int, float]]] = {"loss": [], "validation_loss": [], "bleu": []}
    for record in records:
        step = record["step"]
        for name, points in curves.items():
            while "loss" in record and points and points[-1][0] >= step:
                points.pop()
            is_number = isinstance(record.get(name), int | float) and "test" not in record
            if is_number and (not points or points[-1][0] < step):
                points.append((step, record[name]))
    columns = {name: zip(*points, strict=True) for name, points in curves.items() if points}
    return {name: Curve(*(tuple(column) for column in pair)) for name, pair in columns.items()}


def _explain(translator: Translator, lines: Sequence[str]) -> list[Explanation]:
    """Returns translations of three short lines with their attention; none where the model has no attention."""
    try:
        translator.check_explicable()
    except ValueError:
        return []
    short = [line for line in dict.fromkeys(lines) if len(line.split()) in EXPLAINED_WORDS]
    return [translator.explain(line) for line in short[:: max(1, len(short) // EXPLAINED)][:EXPLAINED]]
