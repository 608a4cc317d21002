"""Reads gold trees and output trees from files, so that `bracket_scores` can compare them.

A file has one tree per line, or several lines per tree.
"""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from transduce.parsing.brackets import TreeLine
from transduce.parsing.trees import read_trees


class GoldTrees(NamedTuple):
    """The gold trees in a file.

    If each line of the file is a sentence, `line_indices` contains the line of each sentence, counted from 0. Otherwise
    it is empty.
    """

    sentences: list[TreeLine]
    lines: int  # the number of lines in the file
    line_indices: list[int]


def read_gold_trees(lines: Sequence[str], name: str) -> GoldTrees:
    """Reads the gold trees from the lines of the file `name`. Empty lines and comments are skipped.

    If every line closes all brackets that it opens, each line is a sentence; otherwise each tree is a sentence. Raises
    ValueError, with the number of the line, if brackets do not match.
    """
    numbered = list(read_trees(lines, name))
    if not _is_line_by_line(lines):
        return GoldTrees([tree for _, tree in numbered], len(lines), [])
    line_indices = sorted({line - 1 for line, _ in numbered})
    return GoldTrees([lines[index] for index in line_indices], len(lines), line_indices)


def read_output_trees(lines: Sequence[str], name: str, gold: GoldTrees) -> list[TreeLine]:
    """Reads the output for each sentence of `gold` from the lines of the file `name`.

    An empty line stands for a missing tree. A parser may also write lines that are not trees. They are accepted if the
    file has as many lines as the gold file, or as many lines as there are gold sentences. Raises ValueError if the
    number of sentences differs from that of `gold`.
    """
    count = len(gold.sentences)
    if not _is_line_by_line(lines):
        with contextlib.suppress(ValueError):  # raised for a broken file
            trees: list[TreeLine] = [tree for _, tree in read_trees(lines, "")]
            if len(trees) == count:
                return trees
    if len(lines) == gold.lines and gold.line_indices:
        return [lines[index] for index in gold.line_indices]
    if len(lines) == count:
        return list(lines)
    sentences = read_gold_trees(lines, name).sentences
    if len(sentences) != count:
        raise ValueError(
            f"{name} has {len(lines):,} lines with {len(sentences):,} sentences, but the reference has {count:,}; "
            "write one tree a line, and an empty line for a tree that is missing"
        )
    return sentences


def _is_line_by_line(lines: Sequence[str]) -> bool:
    """Returns True if every line closes as many brackets as it opens."""
    return all(line.count("(") == line.count(")") for line in lines)
