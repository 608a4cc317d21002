"""Repairs symbols that make no tree: brackets with the fewest changes, then words and roots."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from transduce.text.linearisation import Brackets, InOrder, preterminal_without_tag
from transduce.text.trees import Tree, escape_word

__all__ = ["balance_brackets", "flat_tree", "repair_tree"]

ROOT = "S"
"""The label of a root that joins several."""


def flat_tree(words: Sequence[str]) -> Tree:
    """Returns one phrase over all words, for a sentence without a parse; its label X is the treebank's for unknown."""
    return Tree("X", tuple(map(preterminal_without_tag, words)))


def repair_tree(symbols: Sequence[str], words: Sequence[str], linearisation: Brackets | InOrder) -> Tree:
    """Returns a tree over `words` that differs little from `symbols`.

    Brackets are balanced with the fewest insertions, deletions and replacements. Then surplus parts of speech and empty
    phrases are left out, words without a part of speech are added to the root, and several roots get one around them.
    """
    remaining, parts = iter(words), [list[Tree]()]
    for symbol in balance_brackets(symbols):
        if symbol.startswith("("):
            takes_first = isinstance(linearisation, InOrder) and parts[-1]
            parts.append([parts[-1].pop()] if takes_first else [])
        elif symbol.startswith(")"):
            if phrase := parts.pop():
                parts[-1].append(Tree(symbol[1:], tuple(phrase)))
        elif (word := next(remaining, None)) is not None:
            parts[-1].append(Tree(symbol, (escape_word(word),)))
    return _join_roots(parts[0], list(map(preterminal_without_tag, remaining)))


def _join_roots(roots: list[Tree], unread: list[Tree]) -> Tree:
    """Returns one tree of the finished ones and of the words that none has."""
    if len(roots) == 1 and not roots[0].is_preterminal:
        return roots[0]._replace(children=(*roots[0].children, *unread))
    if len(roots) == 1 and not unread:
        return roots[0]
    return Tree(ROOT, (*roots, *unread))


def balance_brackets(symbols: Sequence[str]) -> list[str]:
    """Returns `symbols` with balanced brackets, by the fewest changes.

    A change deletes a bracket or replaces it by another. Inserting the missing one of a pair instead costs as much as
    deleting the other, and is not needed. Other symbols stay.
    """
    places = [place for place, symbol in enumerate(symbols) if symbol.startswith(("(", ")"))]
    brackets = [symbols[place] for place in places]
    balanced: list[str | None] = list(symbols)
    for place in places:
        balanced[place] = None
    for left, right in _pairs(brackets, _fewest_changes(brackets)):
        label = brackets[left if brackets[left].startswith("(") else right][1:]
        balanced[places[left]], balanced[places[right]] = f"({label}", f"){label}"
    return [symbol for symbol in balanced if symbol is not None]


def _pair_costs(brackets: Sequence[str]) -> NDArray[np.int64]:
    """Returns how many changes make a pair of each two brackets, the earlier one first."""
    opens = np.array([bracket.startswith("(") for bracket in brackets], dtype=bool)
    names = {label: number for number, label in enumerate(sorted({bracket[1:] for bracket in brackets}))}
    labels = np.array([names[bracket[1:]] for bracket in brackets], dtype=np.int64)
    changed_kinds = (~opens).astype(np.int64)[:, None] + opens.astype(np.int64)[None, :]
    # A bracket whose kind is replaced takes the label of the other.
    return np.where(changed_kinds == 0, labels[:, None] != labels[None, :], changed_kinds).astype(np.int64)


def _fewest_changes(brackets: Sequence[str]) -> NDArray[np.int64]:
    """Returns the fewest changes that balance each span `[first, end]` of brackets."""
    size, costs = len(brackets), _pair_costs(brackets)
    fewest = np.zeros((size + 2, size + 2), dtype=np.int64)
    for first in range(size - 1, -1, -1):
        for end in range(first + 1, size + 1):
            partners = np.arange(first + 1, end)
            paired = fewest[first + 1, partners] + costs[first, partners] + fewest[partners + 1, end]
            fewest[first, end] = min(fewest[first + 1, end] + 1, paired.min(initial=size + 1))
    return fewest


def _pairs(brackets: Sequence[str], fewest: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yields the pairs of brackets that the fewest changes make; the others are deleted."""
    costs, spans = _pair_costs(brackets), [(0, len(brackets))]
    while spans:
        first, end = spans.pop()
        if first >= end:
            continue
        partners = np.arange(first + 1, end)
        paired = fewest[first + 1, partners] + costs[first, partners] + fewest[partners + 1, end]
        matches = np.flatnonzero(paired == fewest[first, end])
        if len(matches):
            partner = int(partners[matches[0]])
            yield first, partner
            spans += [(first + 1, partner), (partner + 1, end)]
        else:
            spans.append((first + 1, end))
