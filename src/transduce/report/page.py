"""The page of a report: one file without scripts that needs no network and prints well."""

from collections.abc import Sequence
from importlib import resources
from string import Template

from transduce.measure import sentence_differences
from transduce.pictures.calibration import calibration_svg
from transduce.pictures.comparison_page import METRICS, marked_sentence
from transduce.pictures.html_parts import escape, in_range, section, signed, static_page, table
from transduce.report.charts import COLOURS, ChartLine, cross_attention, legend, line_chart
from transduce.report.facts import facts_of
from transduce.report.measurement import ModelReport, RunReport, TestSetReport

__all__ = ["report_page"]

CURVES = {"loss": "training loss", "validation_loss": "validation loss", "bleu": "BLEU of the validation set"}
SHOWN = 5  # best and worst sentences of a run


def report_page(report: ModelReport) -> str:
    """Returns the page; equal reports give equal pages."""
    names = [run.name for run in report.runs]
    sections = [_runs(report), _training(report.runs)]
    sections += [_test(test, names) for test in report.tests]
    sections += [_calibration(report.runs), _attention(report), _settings(report.runs)]
    styles = (
        resources.files(room).joinpath(name).read_text(encoding="utf-8")
        for room, name in (("transduce.pictures", "comparison.css"), (__package__, "report.css"))
    )
    links = {"runs": "Models", "training": "Training"}
    links |= {f"test-{_anchor(test)}": escape(test.name) for test in report.tests}
    links |= {"calibration": "Confidence", "attention": "Attention", "settings": "Settings"}
    content = "\n".join(filter(None, sections))
    body = Template(resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=escape(", ".join(names)),
        links="\n".join(f'<a href="#{key}">{text}</a>' for key, text in links.items() if f'id="{key}"' in content),
        sections=content,
    )
    return static_page(f"Report: {', '.join(names)}", "\n".join(styles), body)


def _anchor(test: TestSetReport) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in test.name)


def _runs(report: ModelReport) -> str:
    """Returns the table of the runs: model, training and cost."""
    facts = [facts_of(run) for run in report.runs]
    rows = [[name, *(escape(each[name]) for each in facts)] for name in facts[0]]
    names = [f'<b class="run{number % COLOURS}">{escape(run.name)}</b>' for number, run in enumerate(report.runs)]
    return section("runs", "Models and trainings", table([["", *names], *rows]))


def _training(runs: Sequence[RunReport]) -> str:
    """Returns the curves of the trainings; nothing where no run has a metrics log."""
    charts = []
    for name, title in CURVES.items():
        lines = [
            ChartLine(number, run.curves[name].steps, run.curves[name].values)
            for number, run in enumerate(runs)
            if name in run.curves
        ]
        if lines:
            charts.append(line_chart(title, "steps", lines))
    if not charts:
        return ""
    names = f"<p>{legend([run.name for run in runs])}</p>" if len(runs) > 1 else ""
    return section("training", "Training", names, f'<div class="sides">{"".join(charts)}</div>')


def _test(test: TestSetReport, names: Sequence[str]) -> str:
    """Returns the section of a test set."""
    return section(
        f"test-{_anchor(test)}",
        f"Test set {escape(test.name)}",
        f"<p>{len(test.corpus.source):,} sentences.</p>",
        _scores(test, names),
        _buckets(test, names),
        *(_extremes(test, number, name) for number, name in enumerate(names)),
        *(_differences(test, number, names) for number in range(1, len(names))),
    )


def _scores(test: TestSetReport, names: Sequence[str]) -> str:
    head = ["run"]
    for metric in METRICS:
        head += [METRICS[metric], *([f"− {escape(names[0])}", "p"] if len(names) > 1 else [])]
    rows: list[list[str]] = [[escape(name)] for name in names]
    for metric in METRICS:
        baseline, differences = test.scores[metric]
        for row, score in zip(rows, (baseline, *(each.score for each in differences)), strict=True):
            row.append(f"{score.score:.2f} <small>{score.low:.2f} to {score.high:.2f}</small>")
        if len(names) > 1:
            rows[0] += ["", ""]
            for row, each in zip(rows[1:], differences, strict=True):
                row += [signed(each.delta), f"{each.p:.4f}"]
    for row, seconds in zip(rows, test.seconds, strict=True):
        row.append(f"{len(test.corpus.source) / seconds:,.1f}" if seconds else "")
    signatures = "<br>".join(f"{METRICS[name]}: {escape(test.scores[name].baseline.signature)}" for name in METRICS)
    test_of_pairs = " p: paired bootstrap test." if len(names) > 1 else ""
    return table([[*head, "sentences a second"], *rows]) + (
        f'<p class="note">Below each score: its 95 % interval by bootstrap.{test_of_pairs}<br>{signatures}</p>'
    )


def _buckets(test: TestSetReport, names: Sequence[str]) -> str:
    """Returns the tables of BLEU by length and of F1 by frequency."""
    runs = list(map(escape, names))
    lengths = [
        [in_range(one.low, one.high), f"{one.sentences:,}", *map("{:.1f}".format, one.bleu)] for one in test.by_length
    ]
    frequencies = [
        [in_range(one.low, one.high), f"{one.words:,}", *map("{:.1f}".format, one.f1)] for one in test.by_frequency
    ]
    return (
        '<div class="sides">'
        f"<div><h3>BLEU by words of the reference</h3>{table([['words', 'sentences', *runs], *lengths])}</div>"
        "<div><h3>F1 of words by their frequency</h3>"
        f"{table([['times in the reference', 'words', *runs], *frequencies])}</div></div>"
    )


def _extremes(test: TestSetReport, number: int, name: str) -> str:
    """Returns the sentences of a run with the lowest and with the highest chrF."""
    scores = test.sentences[number]
    order = sorted(range(len(scores)), key=lambda place: (scores[place], place))
    half = len(order) // 2
    worst, best = order[: min(SHOWN, len(order) - half)], order[::-1][: min(SHOWN, half)]
    parts = []
    for title, places in (("worst", worst), ("best", best)):
        if places:
            parts += [f"<h4>{title}</h4>", *(_sentence(test, number, place) for place in places)]
    return f"<details><summary>{escape(name)}: worst and best sentences by chrF</summary>{''.join(parts)}</details>"


def _sentence(test: TestSetReport, number: int, place: int) -> str:
    texts = (
        ("source", test.corpus.source[place]),
        ("reference", test.corpus.target[place]),
        ("output", test.outputs[number][place]),
    )
    rows = "".join(f'<dt>{name}</dt><dd lang="" dir="auto" translate="no">{escape(text)}</dd>' for name, text in texts)
    heading = f"<span>line {place + 1:,}</span><span>chrF {test.sentences[number][place]:.1f}</span>"
    return f"<article><h4>{heading}</h4><dl>{rows}</dl></article>"


def _differences(test: TestSetReport, number: int, names: Sequence[str]) -> str:
    """Returns the sentences where a run differs most from the first."""
    parts = [f'<p><b class="a">A</b> {escape(names[0])}, <b class="b">B</b> {escape(names[number])}</p>']
    sides = sentence_differences((test.sentences[0], test.sentences[number]), top=SHOWN)
    for title, side in zip(("A is better", "B is better"), sides, strict=True):
        parts.append(f"<h4>{title}</h4>")
        for each in side:
            texts = (
                ("source", test.corpus.source[each.line - 1]),
                ("reference", test.corpus.target[each.line - 1]),
                ("A", test.outputs[0][each.line - 1]),
                ("B", test.outputs[number][each.line - 1]),
            )
            parts.append(marked_sentence(each, texts))
    heading = f"{escape(names[0])} and {escape(names[number])}: sentences that differ most by chrF"
    return f"<details><summary>{heading}</summary>{''.join(parts)}</details>"


def _calibration(runs: Sequence[RunReport]) -> str:
    """Returns the figures of the calibrations; nothing where no run has one."""
    figures = [
        f"<figure class='wide'><figcaption>{escape(run.name)}</figcaption>"
        f"{calibration_svg(run.reliability.before, run.reliability.after)}</figure>"
        for run in runs
        if run.reliability is not None
    ]
    return section("calibration", "Confidence on the validation set", *figures) if figures else ""


def _attention(report: ModelReport) -> str:
    if not report.explanations:
        return ""
    note = f"<p>Cross-attention of {escape(report.runs[0].name)}, last layer, mean of its heads.</p>"
    return section("attention", "Attention", note, *map(cross_attention, report.explanations))


def _settings(runs: Sequence[RunReport]) -> str:
    recipes = (
        f"<details><summary>{escape(run.name)}</summary><pre>{_escaped_lines(run.recipe)}</pre></details>"
        for run in runs
        if run.recipe
    )
    return section("settings", "Settings", *recipes)


def _escaped_lines(text: str) -> str:
    """Returns a text of several lines for HTML."""
    return "\n".join(map(escape, text.split("\n")))
