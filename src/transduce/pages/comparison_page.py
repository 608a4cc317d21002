"""Draws the page that compares two systems, and marks the words in which their outputs differ.

The mark of a word shows whether the reference contains the word.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from transduce.pages.rendering import render
from transduce.storage.result_files import replace_file

if TYPE_CHECKING:
    from transduce.pages.system_comparison import OutputComparison

MAX_WORDS = 1000  # longer texts are not compared, because the time grows with the square of the length

# Scripts that are written without spaces between words, so that each character counts as a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_PUNCTUATION = "!-/:-@[-`{-~\u00a1-\u00bf\u2010-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20\u060c\u061b\u061f"
_WORD = re.compile(rf"\s+|[{_UNSPACED}]|[{_PUNCTUATION}]|[^\s{_UNSPACED}{_PUNCTUATION}]+")

Mark = Literal["right", "wrong"]


class MarkedText(NamedTuple):
    """A piece of an output.

    Words that the other output does not have are marked as `right` or `wrong`; all other text has the mark None.
    """

    text: str
    mark: Mark | None  # right if the reference contains the words


class SentenceOutputs(NamedTuple):
    """The source, the reference and the outputs of a sentence, with the chrF of each output; `line` counts from 1."""

    line: int
    source: str | None
    reference: str
    outputs: tuple[str, ...]
    chrf: tuple[float, ...]

    @property
    def marked(self) -> list[tuple[MarkedText, ...]]:
        """Returns the outputs; if there are two, the words that the other output does not contain are marked."""
        if len(self.outputs) != 2:
            return [(MarkedText(output, None),) for output in self.outputs]
        first, second = self.outputs
        return [mark_differences(*pair, self.reference) for pair in ((first, second), (second, first))]


def mark_differences(output: str, other: str, reference: str) -> tuple[MarkedText, ...]:
    """Splits `output` into pieces, and marks the words that `other` does not contain.

    Texts are compared by an alignment that keeps the order of the words, so that a word counts as missing if it is not
    aligned. Nothing is marked if one of the texts has more than a thousand words.
    """
    words, *others = (_WORD.findall(text) for text in (output, other, reference))
    if max(map(len, (words, *others))) > MAX_WORDS:
        return (MarkedText(output, None),)
    in_other, in_reference = set[int](), set[int]()  # indices of the words that are aligned with the other text
    for text, aligned in zip(others, (in_other, in_reference), strict=True):
        for start, _, size in SequenceMatcher(None, words, text, autojunk=False).get_matching_blocks():
            aligned.update(range(start, start + size))
    marks: list[Mark | None] = [
        None if index in in_other else "right" if index in in_reference else "wrong" for index in range(len(words))
    ]
    # White space gets the mark of the words on both sides, if these have the same mark.
    neighbours = [None, *marks, None]
    marks = [
        mark if not word.isspace() else before if before == after else None
        for word, mark, before, after in zip(words, marks, neighbours, neighbours[2:], strict=False)
    ]
    groups = groupby(zip(words, marks, strict=True), key=lambda pair: pair[1])
    return tuple(MarkedText("".join(word for word, _ in group), mark) for mark, group in groups)


def draw_comparison(
    comparison: "OutputComparison", names: tuple[str, str], texts: Sequence[Sequence[tuple[str, str]]], path: Path
) -> None:
    """Writes the page about `comparison` to `path`; `names` are the names of the two systems.

    `texts` contains the texts of each sentence as pairs of a name and a text: source (if there is one), reference, A
    and B. The output is deterministic, and an existing file is replaced atomically. Raises OSError if the file cannot
    be written.
    """
    tables = []
    for differences in comparison.sentences:
        rows = []
        for line, chrf in differences:
            named = dict(texts[line - 1])
            outputs = named["A"], named["B"]
            rows.append(SentenceOutputs(line, named.get("source"), named["reference"], outputs, chrf))
        tables.append(rows)
    page = render("comparison.html.jinja", comparison=comparison, names=names, sides=tables)
    replace_file(path, lambda target: target.write_text(page, encoding="utf-8", newline="\n"))
