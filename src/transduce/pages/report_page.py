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
    tests = []
    for test in report.tests:
        worst_and_best = []  # of each run the sentences with the lowest and the highest chrF; none is in both lists
        for number, scores in enumerate(test.systems.sentence_chrf):
            order = sorted(range(len(scores)), key=lambda index: (scores[index], index))
            half = len(order) // 2
            lists = {"worst": order[: min(SHOWN, len(order) - half)], "best": order[::-1][: min(SHOWN, half)]}
            sentences = [(title, [_sentence(test, index, number) for index in lists[title]]) for title in lists]
            worst_and_best.append(sentences)
        first, *others = test.systems.sentence_chrf
        differences = []  # of each run but the first where it differs most from the first, in both directions
        for number, other in enumerate(others, start=1):
            sides = sentence_differences(first, other, top=SHOWN)
            differences.append([[_sentence(test, each.line - 1, 0, number) for each in side] for side in sides])
        tests.append((test, worst_and_best, differences))
    return render(
        "report.html.jinja",
        runs=report.runs,
        facts=[_facts_of(run) for run in report.runs],
        charts_of_training=charts,
        tests=tests,
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


def _sentence(test: TestSetReport, index: int, *runs: int) -> SentenceOutputs:
    """Returns a sentence with the outputs of some runs."""
    return SentenceOutputs(
        line=index + 1,
        source=test.corpus.source[index],
        reference=test.corpus.target[index],
        outputs=tuple(test.outputs[run][index] for run in runs),
        chrf=tuple(test.systems.sentence_chrf[run][index] for run in runs),
    )
