"""A report as Markdown, for a model card."""

from collections.abc import Sequence

from transduce.pictures.comparison_page import METRICS
from transduce.report.facts import facts_of
from transduce.report.measurement import ModelReport

__all__ = ["report_text"]


def report_text(report: ModelReport) -> str:
    """Returns tables of the runs and of their scores."""
    facts = [facts_of(run) for run in report.runs]
    parts = [
        "## Models and trainings",
        _table(
            ["", *(run.name for run in report.runs)], [[name, *(each[name] for each in facts)] for name in facts[0]]
        ),
    ]
    if report.tests:
        parts += ["## Scores", _table(["test set", "run", *METRICS.values()], _score_rows(report))]
        parts.append("Intervals are of 95 %, by bootstrap. A p-value is of the paired test against the first run.")
        baselines = {name: report.tests[0].scores[name].baseline for name in METRICS}
        parts += [f"- {METRICS[name]}: `{score.signature}`" for name, score in baselines.items()]
    return "\n\n".join(parts).replace("`\n\n- ", "`\n- ") + "\n"


def _score_rows(report: ModelReport) -> list[list[str]]:
    """Returns a row for each test set and run."""
    rows = []
    for test in report.tests:
        for number, run in enumerate(report.runs):
            cells = []
            for metric in METRICS:
                baseline, differences = test.scores[metric]
                score = baseline if number == 0 else differences[number - 1].score
                p = "" if number == 0 else f", p = {differences[number - 1].p:.4f}"
                cells.append(f"{score.score:.2f} [{score.low:.2f}, {score.high:.2f}]{p}")
            rows.append([test.name, run.name, *cells])
    return rows


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    """Returns text for a cell, with question marks in place of bytes that are not UTF-8, as names of files may have."""
    return text.replace("|", "\\|").encode("utf-8", "replace").decode()
