"""Renders a self-contained page about inspected corpora, with their faults, histograms and examples."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape

from transduce.corpus.corpus_inspection import CorpusInspection
from transduce.inspection.inspector import first_numbers
from transduce.pages.charts import Histogram
from transduce.pages.rendering import render

BINS = 40
SHOWN_CHARACTERS = 600


def render_inspection_page(results: Sequence[CorpusInspection], notes: Sequence[str]) -> str:
    """Renders the results of inspections as HTML; `notes` are sentences about checks that were not run."""
    sections = []
    for result in results:
        faults = {check: numbers for check, numbers in result.inspection.faults.items() if len(numbers)}
        clean = [check for check in result.inspection.faults if check not in faults]
        highest = max([1.0, *(float(np.percentile(side, 99)) for side in result.inspection.lengths if len(side))])
        edges = np.linspace(0, highest, BINS + 1)
        counts = [np.histogram(np.minimum(side, highest), edges)[0].tolist() for side in result.inspection.lengths]
        lengths = Histogram(
            title="Characters of a line",
            unit="pairs",
            counts=dict(zip(("source", "target"), counts, strict=True)),
            ticks=("0", "", f"{highest:,.0f} and more"),
            names_colours=True,
        )
        source, target = (side.astype(np.float64) for side in result.inspection.lengths)
        has_both = (source > 0) & (target > 0)
        logarithms = np.clip(np.log2(target[has_both] / source[has_both]), -2, 2)
        ratios = np.histogram(logarithms, np.linspace(-2, 2, BINS + 1))[0].tolist()
        title = "Characters of the target for one of the source"
        sections.append(
            (result, faults, clean, (lengths, Histogram(title, "pairs", {"source": ratios}, ("¼", "1", "4"))))
        )
    return render(
        "inspection.html.jinja",
        results=sections,
        notes=notes,
        first_numbers=first_numbers,
        shown_line=_shown_line,
    )


def _shown_line(line: str) -> Markup:
    """Formats a line as HTML; truncates a very long line, and shows control and invisible characters as code points."""
    code = Markup("<code>U+{:04X}</code>")
    letters = (
        escape(letter) if letter.isprintable() or letter == " " else code.format(ord(letter))
        for letter in line[:SHOWN_CHARACTERS]
    )
    return Markup("").join(letters) + (" …" if len(line) > SHOWN_CHARACTERS else "")
