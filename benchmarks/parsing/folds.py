"""Folds of tree files for cross-validation, the cleaned trees of files, and the labelled F1 of parsed trees."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transduce.text.trees import Tree, clean_tree, preterminals, read_trees

__all__ = ["BracketScore", "folds", "labelled_f1", "read_cleaned", "train_and_test"]

# As COLLINS.prm of EVALB: these parts of speech do not count as words, and PRT counts as ADVP.
PUNCTUATION = frozenset({",", ":", "``", "''", "."})
EQUAL_LABELS = {"PRT": "ADVP"}
RESAMPLES, SEED = 1000, 1


class BracketScore(NamedTuple):
    """Labelled precision, recall and F1 from 0 to 100, and the 95 % confidence interval of F1 by bootstrap."""

    precision: float
    recall: float
    f1: float
    low: float
    high: float
    tagging: float  # share of words with the right part of speech, 0 to 100
    sentences: int


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


def labelled_f1(pairs: Sequence[tuple[Tree, Tree]]) -> BracketScore:
    """Scores pairs of a gold tree and a parsed tree over the same words, sums of brackets pooled over sentences.

    The gold tags say which words are punctuation, so that both trees lose the same words. Raises ValueError where the
    words of a pair differ.
    """
    counts = np.array([_bracket_counts(gold, parsed) for gold, parsed in pairs], dtype=np.float64).reshape(-1, 5)
    generator = np.random.default_rng(SEED)
    drawn = generator.integers(0, max(len(pairs), 1), (RESAMPLES, len(pairs)))
    resampled = [_f1(counts[rows].sum(0)) for rows in drawn]
    low, high = np.percentile(resampled, (2.5, 97.5))
    matched, expected, written, right_tags, words = total = counts.sum(0)
    return BracketScore(
        precision=100 * matched / max(written, 1),
        recall=100 * matched / max(expected, 1),
        f1=_f1(total),
        low=float(low),
        high=float(high),
        tagging=100 * right_tags / max(words, 1),
        sentences=len(pairs),
    )


def _f1(counts: np.ndarray) -> float:
    """Returns F1 from 0 to 100 of sums of matched, gold and parsed brackets; two empty sets agree fully."""
    matched, expected, written = counts[:3]
    return 200 * float(matched) / float(expected + written) if expected + written else 100.0


def _bracket_counts(gold: Tree, parsed: Tree) -> tuple[int, int, int, int, int]:
    """Returns matched, gold and parsed brackets, right tags, and words of one sentence."""
    tags, parsed_tags = preterminals(gold), preterminals(parsed)
    if [tag.children for tag in tags] != [tag.children for tag in parsed_tags]:
        raise ValueError(f"the words of {str(parsed)[:60]!r} are not those of the gold tree; parse the same sentence")
    starts = np.cumsum([0] + [tag.label not in PUNCTUATION for tag in tags]).tolist()
    expected, written = _brackets(gold, starts), _brackets(parsed, starts)
    right = sum(tag.label == other.label for tag, other in zip(tags, parsed_tags))
    return (expected & written).total(), expected.total(), written.total(), right, len(tags)


def _brackets(tree: Tree, starts: Sequence[int]) -> Counter[tuple[str, int, int]]:
    """Returns the labelled spans of phrases; `starts[i]` is how many words that count stand before word i."""
    spans: Counter[tuple[str, int, int]] = Counter()

    def add(node: Tree, first: int) -> int:
        if node.is_preterminal:
            return first + 1
        last = first
        for child in node.children:
            assert isinstance(child, Tree)
            last = add(child, last)
        if starts[first] < starts[last] and node.label != "TOP":
            spans[EQUAL_LABELS.get(node.label, node.label), starts[first], starts[last]] += 1
        return last

    add(tree, 0)
    return spans
