"""Reports of trained models: what they cost, how good they are on test sets, where they err; as a page or Markdown.

The page is one file without scripts that needs no network and prints well; the Markdown is for a model card.
"""

from transduce.measure.system_comparison import sentence_differences
from transduce.pages.attention_drawing import subword_labels
from transduce.pages.calibration_drawing import calibration_charts
from transduce.pages.charts import ChartLine, LineChart
from transduce.pages.comparison_page import SentenceOutputs
from transduce.pages.rendering import render
from transduce.pages.run_measurement import ModelReport, RunReport, TestSetReport

CURVES = {"loss": "training loss", "validation_loss": "validation loss", "bleu": "BLEU of the validation set"}
COLOURS = 6  # of runs in the style sheet
SHOWN = 5  # best and worst sentences of a run


def report_page(report: ModelReport) -> str:
    """Returns the page; equal reports give equal pages."""
    calibrations = [
        (run.name, calibration_charts(run.reliability.before, run.reliability.after))
        for run in report.runs
        if run.reliability is not None
    ]
    attentions = [
        # The mean of the heads of the last layer.
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
    return render(
        "report.html.jinja",
        runs=report.runs,
        facts=[_facts_of(run) for run in report.runs],
        charts_of_training=charts,
        tests=[(test, _worst_and_best(test), _differences(test)) for test in report.tests],
        calibrations=calibrations,
        attentions=attentions,
    )


def report_text(report: ModelReport) -> str:
    """Returns tables of the runs and of their scores, in Markdown."""
    facts = [_facts_of(run) for run in report.runs]
    return render("report.md.jinja", runs=report.runs, facts=facts, tests=report.tests)


def _facts_of(run: RunReport) -> dict[str, str]:
    """Returns what a run is and what it cost; a fact that the run has not is empty."""
    config = run.config
    languages = ", ".join(map(str, config.directions)) or f"{config.source_language} → {config.target_language}"
    sizes = f"{config.vocabulary.source:,} and {config.vocabulary.target:,}"
    speed = f"{run.tokens / run.seconds:,.0f}" if run.seconds else ""
    steps = ", ".join(f"{step:,}" for step in config.weights.steps)  # an imported model has none
    return {
        "languages": languages if config.directions or config.source_language else "",
        "model": f"{type(config.model).__name__}, {config.model.d_model} wide",
        "parameters": f"{run.parameters:,}",
        "subwords of source and target": sizes,
        "weights": f"{config.weights.kind}, of step {steps}" if steps else config.weights.kind,
        "decoding": ", ".join(f"{key} {value}" for key, value in config.decoding.as_dictionary().items()),
        "minutes of training": f"{run.seconds / 60:,.1f}" if run.seconds else "",
        "target tokens of training": f"{run.tokens:,}" if run.tokens else "",
        "target tokens a second": speed,
    }


def _worst_and_best(test: TestSetReport) -> list[list[tuple[str, list[SentenceOutputs]]]]:
    """Returns for each run the sentences with the lowest and with the highest chrF; no sentence is in both lists."""
    runs = []
    for number, scores in enumerate(test.systems.sentence_chrf):
        order = sorted(range(len(scores)), key=lambda place: (scores[place], place))
        half = len(order) // 2
        lists = {"worst": order[: min(SHOWN, len(order) - half)], "best": order[::-1][: min(SHOWN, half)]}
        runs.append([(title, [_sentence(test, place, number) for place in places]) for title, places in lists.items()])
    return runs


def _differences(test: TestSetReport) -> list[list[list[SentenceOutputs]]]:
    """Returns for each run but the first where it differs most from the first: where that is better, and the other."""
    first, *others = test.systems.sentence_chrf
    return [
        [
            [_sentence(test, each.line - 1, 0, number) for each in side]
            for side in sentence_differences(first, other, top=SHOWN)
        ]
        for number, other in enumerate(others, start=1)
    ]


def _sentence(test: TestSetReport, place: int, *numbers: int) -> SentenceOutputs:
    """Returns a sentence with the outputs of some runs."""
    return SentenceOutputs(
        line=place + 1,
        source=test.corpus.source[place],
        reference=test.corpus.target[place],
        outputs=tuple(test.outputs[number][place] for number in numbers),
        chrf=tuple(test.systems.sentence_chrf[number][place] for number in numbers),
    )
