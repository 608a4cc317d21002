"""Reports what trained models cost, how good they are on test sets, and where they make mistakes.

A report is either an HTML page or Markdown for a model card. The page is a self-contained file without scripts, which
can also be printed.
"""

import functools
import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec, ParallelCorpus
from transduce.corpus.pair_checks import name_of
from transduce.corpus.readers import ParallelText, read_parallel_text
from transduce.evaluation.score_test_set import TranslatedTest, request_for_corpus, translate_test
from transduce.model_directory.config import Config
from transduce.model_directory.manifest import RECIPE
from transduce.model_directory.model import Model
from transduce.pages.attention_drawing import subword_labels
from transduce.pages.calibration_drawing import calibration_charts
from transduce.pages.charts import ChartLine, LineChart
from transduce.pages.comparison_page import SentenceOutputs
from transduce.pages.rendering import render
from transduce.pages.system_comparison import SystemScores, score_systems, sentence_differences
from transduce.recipe.model_summary import summarise_model
from transduce.run.metrics_log import METRICS_LOG
from transduce.runtime.device import processor_name
from transduce.text.directions import Direction
from transduce.translation.confidence import CONFIDENCE, Calibration, Reliability
from transduce.translation.results import Explanation
from transduce.translation.search_method import search_method
from transduce.translation.source_request import SourceRequest, target_language_of
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

EXPLAINED = 3  # number of sentences for which attention weights are shown
EXPLAINED_WORDS = range(5, 16)  # number of words that these sentences may have


class Curve(NamedTuple):
    """The values of a metric at the steps at which they were logged during a run."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


class RunReport(NamedTuple):
    """The model, the settings and the training record of a run.

    `seconds` and `tokens` are the sums over all steps in the metrics log.
    """

    name: str
    config: Config
    parameters: int
    seconds: float
    tokens: int
    curves: Mapping[str, Curve]  # by metric, as named in the metrics log
    recipe: str  # the resolved recipe
    reliability: Reliability | None  # of the confidence in its translations; None without a calibration


class TestSetReport(NamedTuple):
    """A test set, with the translations and scores of each run; lists are in the order of the runs."""

    name: str
    files: str
    corpus: ParallelText
    outputs: Sequence[Sequence[str]]
    seconds: Sequence[float]
    systems: SystemScores  # the first run is the baseline

    @property
    def anchor(self) -> str:
        """Returns the name in a form that can be used as a URL fragment."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name)

    @property
    def speeds(self) -> list[str]:
        """Returns the number of sentences that each run translated per second, as text."""
        return [f"{len(self.outputs[0]) / seconds:,.1f}" if seconds else "" for seconds in self.seconds]


class ModelReport(NamedTuple):
    """Everything that a report shows; `explanations` covers translations by the first run only."""

    runs: Sequence[RunReport]
    tests: Sequence[TestSetReport]
    explanations: Sequence[Explanation]
    measured: str  # when, and on which machine


def measure_runs(runs: Sequence[Path], tests: Mapping[str, CorpusSpec], device: str, bootstrap: int) -> ModelReport:
    """Translates the test sets with each run, and scores the translations.

    The scores are the same as those of `transduce evaluate`; `bootstrap` is the number of resamples for confidence
    intervals and paired tests. Raises ValueError if a run is a parser, or if it does not translate in the direction of
    a test set.
    """
    reports = [_read_run(run) for run in runs]
    for report in reports:
        own = Direction(report.config.source_language, report.config.target_language)
        for name, spec in tests.items() if not report.config.directions else ():
            of_test = spec.languages_or(Direction(None, None)) if isinstance(spec, ParallelCorpus) else own
            if not own.is_same(of_test):
                raise ValueError(
                    f"{report.name} translates {own}, and the test set {name} {of_test}: choose test sets with --test, "
                    "or leave the run out"
                )
    corpora = {name: read_parallel_text(spec) for name, spec in tests.items()}
    translated: dict[str, list[TranslatedTest]] = {name: [] for name in tests}
    explanations: list[Explanation] = []
    for run, report in zip(runs, reports, strict=True):

        @functools.cache  # test sets with the same request share a translator
        def load(request: SourceRequest, run: Path = run) -> Translator:
            return Translator.load(run, device=device, **request._asdict())

        for name, spec in tests.items():
            _log.info(f"{report.name} translates {name}, {len(corpora[name].source):,} sentences")
            translator, method = load(request_for_corpus(report.config, spec)), search_method(report.config.decoding)
            translated[name].append(translate_test(corpora[name], (), None, None, translator, method))
            if run == runs[0] and name == next(iter(tests)):
                try:
                    translator.check_explicable()
                except ValueError:  # the model has no attention
                    continue
                lines = dict.fromkeys(corpora[name].source)
                short = [line for line in lines if len(line.split()) in EXPLAINED_WORDS]
                spread = short[:: max(1, len(short) // EXPLAINED)][:EXPLAINED]
                explanations = [translator.explain(line) for line in spread]
    measured, config = [], reports[0].config
    for name, spec in tests.items():
        corpus, outputs = corpora[name], [one.lines for one in translated[name]]
        language = target_language_of(config, request_for_corpus(config, spec))
        systems = score_systems(outputs, corpus.target, language=language, bootstrap=bootstrap)
        seconds = [one.seconds for one in translated[name]]
        measured.append(TestSetReport(name, name_of(spec), corpus, outputs, seconds, systems))
    today = time.strftime("%Y-%m-%d")
    return ModelReport(reports, measured, explanations, f"{today}, {processor_name()}, {device}, float32")


def _read_run(run: Path) -> RunReport:
    """Reads the model, the settings and the training record of a run; raises ValueError for a parser."""
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
    """Reads the records of a metrics log, which may not exist; skips lines that a crash has left incomplete."""
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

    If the last step has several validations, the first one is used, because the others are of averaged weights. If a
    run went back to earlier weights, the steps that it repeated replace the original ones.
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


CURVES = {"loss": "training loss", "validation_loss": "validation loss", "bleu": "BLEU of the validation set"}
COLOURS = 6  # number of colours for runs in the style sheet
SHOWN = 5  # number of sentences that are shown as the best, and as the worst, of a run


def report_page(report: ModelReport) -> str:
    """Renders a report as an HTML page; the output is deterministic."""
    calibrations = [
        (run.name, calibration_charts(run.reliability.before, run.reliability.after))
        for run in report.runs
        if run.reliability is not None
    ]
    attentions = [
        # Weights are the mean over the heads of the last layer.
        (subword_labels(each.source), zip(subword_labels(each.target), each.cross[-1].mean(0).tolist(), strict=True))
        for each in report.explanations
    ]
    charts = []
    for name, title in CURVES.items():
        lines = [
            ChartLine(f"run{number % COLOURS}", run.curves[name].steps, run.curves[name].values)
            for number, run in enumerate(report.runs)
            if name in run.curves
        ]
        if lines:
            charts.append(LineChart(title, "steps", lines))
    tests = []
    for test in report.tests:
        worst_and_best = []  # for each run, the sentences with the lowest and with the highest chrF, without overlap
        for number, scores in enumerate(test.systems.sentence_chrf):
            order = sorted(range(len(scores)), key=lambda index: (scores[index], index))
            half = len(order) // 2
            lists = {"worst": order[: min(SHOWN, len(order) - half)], "best": order[::-1][: min(SHOWN, half)]}
            sentences = [(title, [_sentence(test, index, number) for index in lists[title]]) for title in lists]
            worst_and_best.append(sentences)
        first, *others = test.systems.sentence_chrf
        differences = []  # for each later run, the sentences where it is much worse or much better than the first
        for number, other in enumerate(others, start=1):
            sides = sentence_differences(first, other, top=SHOWN)
            differences.append([[_sentence(test, each.line - 1, 0, number) for each in side] for side in sides])
        tests.append((test, worst_and_best, differences))
    return render(
        "report.html.jinja",
        runs=report.runs,
        measured=report.measured,
        facts=[_facts_of(run) for run in report.runs],
        charts_of_training=charts,
        tests=tests,
        calibrations=calibrations,
        attentions=attentions,
    )


def report_text(report: ModelReport) -> str:
    """Renders the tables of the runs and of their scores as Markdown."""
    facts = [_facts_of(run) for run in report.runs]
    return render("report.md.jinja", runs=report.runs, facts=facts, tests=report.tests)


def _facts_of(run: RunReport) -> dict[str, str]:
    """Returns facts about a run, such as its model and its training time, by name; unknown facts are empty."""
    config = run.config
    languages = ", ".join(map(str, config.directions)) or f"{config.source_language} → {config.target_language}"
    sizes = f"{config.vocabulary.source:,} and {config.vocabulary.target:,}"
    speed = f"{run.tokens / run.seconds:,.0f}" if run.seconds else ""
    decoding = [(key.replace("_", " "), value) for key, value in config.decoding.as_dictionary().items()]
    steps = ", ".join(f"{step:,}" for step in config.weights.steps)  # an imported model has none
    return {
        "languages": languages if config.directions or config.source_language else "",
        "model": f"{type(config.model).__name__}, {config.model.d_model} wide",
        "parameters": f"{run.parameters:,}",
        "subwords of source and target": sizes,
        "weights": f"{config.weights.kind}, of step {steps}" if steps else config.weights.kind,
        "decoding": ", ".join(f"{key} {value}" for key, value in decoding if value is not None),
        "minutes of training": f"{run.seconds / 60:,.1f}" if run.seconds else "",
        "target tokens of training": f"{run.tokens:,}" if run.tokens else "",
        "target tokens a second": speed,
    }


def _sentence(test: TestSetReport, index: int, *runs: int) -> SentenceOutputs:
    return SentenceOutputs(
        line=index + 1,
        source=test.corpus.source[index],
        reference=test.corpus.target[index],
        outputs=tuple(test.outputs[run][index] for run in runs),
        chrf=tuple(test.systems.sentence_chrf[run][index] for run in runs),
    )
