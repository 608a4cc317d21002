"""What a report shows: the training of each run, and its translations of the test sets."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transduce.corpus import CorpusSpec
from transduce.measure import (
    Comparison,
    FrequencyBucket,
    LengthBucket,
    OutputComparison,
    compare,
    compare_systems,
    metric_named,
    score_by_frequency,
    score_by_length,
    words_of_bleu,
)
from transduce.model_directory import RECIPE, Config, Model
from transduce.recipe.model_summary import summarise_model
from transduce.trainer.evaluation import translate_test
from transduce.trainer.metrics_log import METRICS_LOG
from transduce.trainer.validation import ParallelText, read_parallel_text
from transduce.translation.confidence import CONFIDENCE, Calibration
from transduce.translation.results import Explanation
from transduce.translation.search_method import search_method
from transduce.translation.source_request import request_for_corpus, target_language_of
from transduce.translation.translator import Translator

__all__ = ["METRICS", "Curve", "ModelReport", "RunReport", "TestSetReport", "measure_runs"]

METRICS = ("bleu", "chrf")
EXPLAINED = 3  # sentences whose attention is shown
EXPLAINED_WORDS = range(5, 16)  # words of such a sentence

Say = Callable[[str], None]


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
    calibration: Calibration | None


class TestSetReport(NamedTuple):
    """A test set, and each run's translations of it. Scores and sentences are in the order of the runs."""

    name: str
    corpus: ParallelText
    outputs: Sequence[Sequence[str]]
    seconds: Sequence[float]
    scores: Mapping[str, Comparison]  # by metric; the first run is the baseline
    by_length: Sequence[LengthBucket]
    by_frequency: Sequence[FrequencyBucket]
    sentences: Sequence[Sequence[float]]  # chrF of each sentence
    differences: Sequence[OutputComparison]  # between the first run and each other one


class ModelReport(NamedTuple):
    """Everything that a report shows; `explanations` are of the first run."""

    runs: Sequence[RunReport]
    tests: Sequence[TestSetReport]
    explanations: Sequence[Explanation]


def measure_runs(
    runs: Sequence[Path], tests: Mapping[str, CorpusSpec], device: str, bootstrap: int, say: Say
) -> ModelReport:
    """Translates the test sets with each run and measures the translations.

    The scores are those of `transduce evaluate`. Raises ValueError for a parser, and for a run that does not translate
    the direction of a test set.
    """
    reports = [_read_run(run) for run in runs]
    corpora = {name: read_parallel_text(spec) for name, spec in tests.items()}
    measured = []
    for name, spec in tests.items():
        outputs, seconds = [], []
        for run, report in zip(runs, reports, strict=True):
            say(f"{report.name} translates {name}, {len(corpora[name].source):,} sentences")
            translator = Translator.load(run, device=device, **request_for_corpus(report.config, spec)._asdict())
            method = search_method(report.config.decoding)
            translated = translate_test(corpora[name], [], None, None, translator, method)
            outputs.append(translated.lines)
            seconds.append(translated.seconds)
        language = target_language_of(reports[0].config, request_for_corpus(reports[0].config, spec))
        measured.append(_measure(name, corpora[name], outputs, seconds, language, bootstrap))
    first = next(iter(tests.values()), None)
    explanations = [] if first is None else _explain(runs[0], reports[0].config, first, measured[0].corpus, device)
    return ModelReport(reports, measured, explanations)


def _measure(
    name: str,
    corpus: ParallelText,
    outputs: Sequence[Sequence[str]],
    seconds: Sequence[float],
    language: str | None,
    bootstrap: int,
) -> TestSetReport:
    """Measures the translations of a test set."""
    reference = corpus.target
    expected = words_of_bleu(reference, language=language)
    words = [words_of_bleu(lines, language=language) for lines in outputs]
    frequency = Counter(word for line in expected for word in line)
    chrf = metric_named("chrf", language=None).scorer
    return TestSetReport(
        name=name,
        corpus=corpus,
        outputs=outputs,
        seconds=seconds,
        scores=compare(outputs, [reference], METRICS, language=language, bootstrap=bootstrap),
        by_length=score_by_length(outputs, reference, list(map(len, expected)), language),
        by_frequency=score_by_frequency(words, expected, frequency),
        sentences=[
            [chrf.sentence_score(line, [target]).score for line, target in zip(lines, reference, strict=True)]
            for lines in outputs
        ],
        differences=[
            compare_systems((outputs[0], other), reference, language=language, bootstrap=bootstrap, top=5)
            for other in outputs[1:]
        ],
    )


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
        parameters=summarise_model(str(run), None)["parameters"],
        seconds=sum(record["tokens"] / record["tokens_per_second"] for record in steps if record["tokens_per_second"]),
        tokens=sum(record["tokens"] for record in steps),
        curves=_curves(records),
        recipe=recipe.read_text("utf-8") if recipe.is_file() else "",
        calibration=Calibration.read(run) if (run / CONFIDENCE).exists() else None,
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
    """Returns the curves of the training loss, the validation loss and the validation score."""
    curves = {}
    for name in ("loss", "validation_loss", "bleu"):
        points = [
            (record["step"], record[name])
            for record in records
            if isinstance(record.get(name), int | float) and "test" not in record
        ]
        if points:
            curves[name] = Curve(*(tuple(column) for column in zip(*points, strict=True)))
    return curves


def _explain(run: Path, config: Config, spec: CorpusSpec, corpus: ParallelText, device: str) -> list[Explanation]:
    """Returns translations of three short sentences with their attention; none where the model has no attention."""
    translator = Translator.load(run, device=device, **request_for_corpus(config, spec)._asdict())
    try:
        translator.check_explicable()
    except ValueError:
        return []
    short = [line for line in dict.fromkeys(corpus.source) if len(line.split()) in EXPLAINED_WORDS]
    return [translator.explain(line) for line in short[:: max(1, len(short) // EXPLAINED)][:EXPLAINED]]
