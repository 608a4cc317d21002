"""Folds of tree files for cross-validation, the cleaned trees of files, and a report of scores."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from transduce.parsing.bracket_scores import bracket_scores
from transduce.parsing.trees import Tree, clean_tree, preterminals, read_trees

__all__ = ["folds", "read_cleaned", "report_scores", "train_and_test"]

HEADINGS = frozenset({"HEADING", "TITLE", "CAPTION"})
RESAMPLES = 1000


def folds(files: Sequence[Path], count: int) -> list[list[Path]]:
    """Returns `count` folds of whole files: file i, in the order of names, belongs to fold i mod `count`.

    Raises ValueError where a fold would be empty or a file is named twice.
    """
    if not 2 <= count <= len(files):
        raise ValueError(f"{count} folds of {len(files)} files: give a number of folds from 2 to the number of files")
    ordered = sorted(files, key=lambda file: (file.name, str(file)))
    for file, following in pairwise(ordered):
        if file == following:
            raise ValueError(f"{file} is named twice, so it could be in two folds; name it once")
    return [ordered[fold::count] for fold in range(count)]


def train_and_test(files: Sequence[Path], count: int) -> list[tuple[list[Path], list[Path]]]:
    """Returns for each fold the files of all other folds and its own; raises ValueError as `folds` does."""
    parts = folds(files, count)
    return [
        ([file for other, part in enumerate(parts) if other != number for file in part], fold)
        for number, fold in enumerate(parts)
    ]


def read_cleaned(files: Iterable[Path]) -> list[Tree]:
    """Returns the cleaned trees of files in order; a tree of nothing but traces is left out."""
    trees = []
    for file in files:
        for _, tree in read_trees(file.read_text("utf-8").split("\n"), str(file)):
            cleaned = clean_tree(tree)
            if cleaned is not None:
                trees.append(cleaned)
    return trees


def is_sentence(tree: Tree) -> bool:
    """Whether a cleaned tree has four words or more and is no heading, title or caption."""
    return tree.label not in HEADINGS and len(preterminals(tree)) >= 4


def report_scores(gold: Sequence[Tree], parsed: Sequence[Tree]) -> str:
    """Returns a table of the scores by kind of sentence; `parsed` has a tree over the words of each tree of `gold`."""
    pairs = list(zip(gold, parsed, strict=True))
    selections = {
        "all": pairs,
        "up to 40 words": [pair for pair in pairs if len(preterminals(pair[0])) <= 40],
        "4 words and more, no headings": [pair for pair in pairs if is_sentence(pair[0])],
    }
    lines = [f"{'':30} {'sentences':>9} {'precision':>9} {'recall':>7} {'F1':>6} {'95 % interval':>15} {'tags':>6}"]
    for name, chosen in selections.items():
        if len(chosen) > 1:
            golds, outputs = [tree for tree, _ in chosen], [tree for _, tree in chosen]
            score = bracket_scores(golds, outputs, bootstrap=RESAMPLES)
            interval = f"[{score.low:.2f}, {score.high:.2f}]"
            lines.append(
                f"{name:30} {len(chosen):9} {score.precision:9.2f} {score.recall:7.2f} {score.f1:6.2f} "
                f"{interval:>15} {score.totals.tagging_accuracy:6.2f}"
            )
    return "\n".join(lines)
