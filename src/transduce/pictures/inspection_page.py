"""The page of inspected corpora: faults, histograms and examples in one file that needs no network."""

import html
import re
from collections.abc import Sequence
from importlib import resources
from string import Template

import numpy as np
from numpy.typing import NDArray

from transduce.corpus import CorpusInspection, FaultExample
from transduce.inspection import Check, Inspection, first_numbers
from transduce.pictures.html_parts import escape, static_page

__all__ = ["render_inspection_page"]

WIDTH, HEIGHT, MARGIN = 460, 150, 22
BINS = 40
SHOWN_CHARACTERS = 600


def render_inspection_page(results: Sequence[CorpusInspection], notes: Sequence[str]) -> str:
    """Returns the HTML of inspected corpora; `notes` are sentences about checks that are off."""
    folder = resources.files(__package__)
    body = Template((folder / "inspection.html").read_text(encoding="utf-8")).substitute(
        notes="".join(f"<p class='note'>{escape(note)}</p>" for note in notes),
        corpora="\n".join(map(_corpus, results)),
    )
    names = ", ".join(result.name for result in results)
    return static_page(f"Inspection: {names}", (folder / "inspection.css").read_text(encoding="utf-8"), body)


def _corpus(result: CorpusInspection) -> str:
    """Returns the section of a corpus."""
    inspection = result.inspection
    verdicts = "".join(f"<li>{escape(verdict)}</li>" for verdict in result.verdicts())
    clean = ", ".join(check for check, numbers in inspection.faults.items() if not len(numbers))
    return (
        f"<section class='corpus'><h2>{escape(result.name)}</h2><p>{inspection.pairs:,} pairs</p>"
        f"{f'<ul class=verdicts>{verdicts}</ul>' if verdicts else ''}{_table(inspection)}"
        f"{f'<p class=muted>No pair: {clean}</p>' if clean else ''}"
        f"<div class='pictures'>{_lengths(inspection)}{_ratios(inspection)}</div>{_counts(inspection)}"
        f"{''.join(_examples(check, pairs) for check, pairs in result.examples.items())}</section>"
    )


def _table(inspection: Inspection) -> str:
    """Returns the table of the faults that the corpus has."""
    rows = []
    for check, numbers in inspection.faults.items():
        if len(numbers):
            rows.append(
                f"<tr><td>{check}</td><td>pairs {check.phrase}</td><td class='number'>{len(numbers):,}</td>"
                f"<td class='number'>{inspection.share(check):.2%}</td><td>{first_numbers(numbers)}</td></tr>"
            )
    if not rows:
        return "<p>No pair has a fault.</p>"
    header = "<tr><th>check</th><th>counts</th><th>pairs</th><th>share</th><th>first lines</th></tr>"
    return f"<div class='wide'><table><thead>{header}</thead><tbody>{''.join(rows)}</tbody></table></div>"


def _lengths(inspection: Inspection) -> str:
    """Returns the histograms of the lengths of both sides; the longest 1 % are in the last bar."""
    highest = max([1.0, *(float(np.percentile(side, 99)) for side in inspection.lengths if len(side))])
    edges = np.linspace(0, highest, BINS + 1)
    bars = [np.histogram(np.minimum(side, highest), edges)[0] for side in inspection.lengths]
    legend = "<span class='source'>source</span> <span class='target'>target</span>"
    return _figure(f"Characters of a line: {legend}", bars, f"{highest:,.0f} and more")


def _ratios(inspection: Inspection) -> str:
    """Returns the histogram of the ratio of lengths, on a logarithmic axis from 1/4 to 4."""
    source, target = (side.astype(np.float64) for side in inspection.lengths)
    has_both = (source > 0) & (target > 0)
    ratio = np.clip(np.log2(target[has_both] / source[has_both]), -2, 2)
    bars = [np.histogram(ratio, np.linspace(-2, 2, BINS + 1))[0]]
    return _figure("Characters of the target for one of the source", bars, "4", first="¼", middle="1")


def _figure(title: str, bars: Sequence[NDArray[np.int64]], last: str, first: str = "0", middle: str = "") -> str:
    """Returns a histogram as SVG; the bars of several texts stand before each other."""
    highest = max(1, *(int(counts.max(initial=0)) for counts in bars))
    width, ground = WIDTH / BINS, HEIGHT - MARGIN
    shapes = []
    for name, counts in zip(("source", "target"), bars, strict=False):
        for place, count in enumerate(counts):
            if count:
                height = (ground - 4) * count / highest
                shapes.append(
                    f"<rect class='{name}' x='{place * width:.1f}' y='{ground - height:.1f}' width='{width - 1:.1f}' "
                    f"height='{height:.1f}'><title>{count:,} pairs</title></rect>"
                )
    ticks = [(0, "start", first), (WIDTH / 2, "middle", middle), (WIDTH, "end", last)]
    labels = "".join(
        f"<text x='{x}' y='{HEIGHT - 5}' text-anchor='{anchor}'>{text}</text>" for x, anchor, text in ticks
    )
    line = f"<line x1='0' x2='{WIDTH}' y1='{ground}' y2='{ground}'/>"
    return (
        f"<figure><figcaption>{title}</figcaption><svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' "
        f"aria-label='{re.sub('<[^<>]*>', '', title)}, from {first} to {last}: a histogram'>"
        f"{''.join(shapes)}{line}{labels}</svg></figure>"
    )


def _counts(inspection: Inspection) -> str:
    """Returns the scripts and the languages of both sides."""
    rows = []
    for title, sides in (("Scripts", inspection.scripts), ("Languages of the first lines", inspection.languages)):
        for side, counts in zip(("source", "target"), sides, strict=True):
            total = sum(counts.values())
            most = sorted(counts.items(), key=lambda item: -item[1])[:6]
            shown = ", ".join(f"{html.escape(name)} {count / total:.1%}" for name, count in most)
            if most:
                rows.append(f"<tr><td>{title}</td><td>{side}</td><td>{shown}</td></tr>")
    return f"<table class='counts'><tbody>{''.join(rows)}</tbody></table>"


def _examples(check: Check, pairs: Sequence[FaultExample]) -> str:
    """Returns the examples of a fault; text is shown in its own direction."""
    rows = "".join(
        f"<tr><td class='number'>{number:,}{f'<br><small>as {repeats:,}</small>' if repeats else ''}</td>"
        f"<td lang='' dir='auto' translate='no'>{_text(source)}</td>"
        f"<td lang='' dir='auto' translate='no'>{_text(target)}</td></tr>"
        for number, source, target, repeats in pairs
    )
    header = "<tr><th>line</th><th>source</th><th>target</th></tr>"
    return (
        f"<h3>{check}: pairs {check.phrase}</h3>"
        f"<div class='wide'><table class='examples'><thead>{header}</thead><tbody>{rows}</tbody></table></div>"
    )


def _text(line: str) -> str:
    """Returns a line as HTML: cut where it is very long, with control and invisible characters as their numbers."""
    letters = (
        html.escape(letter) if letter.isprintable() or letter == " " else f"<code>U+{ord(letter):04X}</code>"
        for letter in line[:SHOWN_CHARACTERS]
    )
    return "".join(letters) + (" …" if len(line) > SHOWN_CHARACTERS else "")
