"""The page that shows where two systems differ: one file without scripts that needs no network."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.pages.rendering import render
from transduce.pages.word_differences import SentenceOutputs
from transduce.storage.result_files import replace_file

if TYPE_CHECKING:
    from transduce.measure.system_comparison import OutputComparison


def draw_comparison(
    comparison: "OutputComparison", names: tuple[str, str], texts: Sequence[Sequence[tuple[str, str]]], path: Path
) -> None:
    """Writes the page of `comparison` to `path`; `names` are the systems.

    `texts` are those of each sentence, each after its name: source if there is one, reference, A and B. Equal
    comparisons give equal bytes. A file is replaced atomically. Raises OSError where it cannot be written.
    """
    sides = []
    for differences in comparison.sentences:
        side = []
        for line, chrf in differences:
            named = dict(texts[line - 1])
            outputs = named["A"], named["B"]
            side.append(SentenceOutputs(line, named.get("source"), named["reference"], outputs, chrf))
        sides.append(side)
    page = render("comparison.html.jinja", comparison=comparison, names=names, sides=sides)
    replace_file(path, lambda target: target.write_text(page, encoding="utf-8", newline="\n"))
