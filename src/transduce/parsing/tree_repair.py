"""Repairs symbols that do not make a tree: first the brackets, with the fewest changes, then words and roots."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from transduce.parsing.tree_symbols import closes_phrase, opens_phrase, preterminal, preterminal_without_tag
from transduce.parsing.trees import Tree
from transduce.text.tree_linearisation import InOrder, TopDown

ROOT = "S"
"""The label of a root that joins several roots."""

MAX_BRACKETS = 1000
"""If an output has more brackets, all of them are removed, because balancing takes cubic time."""

MAX_DEPTH = 100
"""The deepest nesting of phrases that a repair keeps; the treebanks have at most 29 levels."""


def flat_tree(words: Sequence[str]) -> Tree:
    """Returns one phrase over all words, for a sentence without a parse; X is a treebank's label for unknown ones."""
    return Tree("X", tuple(map(preterminal_without_tag, words)))


def repair_tree(symbols: Sequence[str], words: Sequence[str], linearisation: TopDown | InOrder) -> Tree:
    """Returns a tree over `words` that differs little from `symbols`.

    Brackets are balanced with the fewest deletions and replacements. Then surplus parts of speech and empty phrases are
    left out, words without a part of speech are added to the root, and several roots get a root around them.
    """
    remaining, parts, depth = iter(words), [list[Tree]()], 0
    for symbol in balance_brackets(symbols):
        if opens_phrase(symbol):
            depth += 1
            if depth <= MAX_DEPTH:
                takes_first = isinstance(linearisation, InOrder) and parts[-1]
                parts.append([parts[-1].pop()] if takes_first else [])
        elif closes_phrase(symbol):
            if depth <= MAX_DEPTH and (phrase := parts.pop()):
                parts[-1].append(Tree(symbol[1:], tuple(phrase)))
            depth -= 1
        elif (word := next(remaining, None)) is not None:
            parts[-1].append(preterminal(linearisation, symbol, word))
    roots, unread = parts[0], list(map(preterminal_without_tag, remaining))
    if len(roots) == 1 and not roots[0].is_preterminal:
        return roots[0]._replace(children=(*roots[0].children, *unread))
    if len(roots) == 1 and not unread:
        return roots[0]
    return Tree(ROOT, (*roots, *unread))


def balance_brackets(symbols: Sequence[str]) -> list[str]:
    """Balances the brackets of `symbols` with the fewest changes.

    A change deletes a bracket or replaces it by another bracket. Insertions are not needed: inserting the missing
    bracket of a pair costs as much as deleting the other bracket. Other symbols stay.
    """
    indices = [index for index, symbol in enumerate(symbols) if opens_phrase(symbol) or closes_phrase(symbol)]
    if len(indices) > MAX_BRACKETS:
        return [symbol for symbol in symbols if not opens_phrase(symbol) and not closes_phrase(symbol)]
    brackets = [symbols[index] for index in indices]
    costs = _pair_costs(brackets)
    fewest = _fewest_changes(costs)
    balanced: list[str | None] = list(symbols)
    for index in indices:
        balanced[index] = None
    spans = [(0, len(brackets))]
    while spans:  # keeps the pairs that the fewest changes make, and deletes all other brackets
        first, end = spans.pop()
        if first >= end:
            continue
        partners = np.arange(first + 1, end)
        paired = fewest[first + 1, partners] + costs[first, partners] + fewest[partners + 1, end]
        matches = np.flatnonzero(paired == fewest[first, end])
        if len(matches):
            partner = int(partners[matches[0]])
            label = brackets[first if opens_phrase(brackets[first]) else partner][1:]
            balanced[indices[first]], balanced[indices[partner]] = f"({label}", f"){label}"
            spans += [(first + 1, partner), (partner + 1, end)]
        else:
            spans.append((first + 1, end))
    return [symbol for symbol in balanced if symbol is not None]


def _pair_costs(brackets: Sequence[str]) -> NDArray[np.int64]:
    """Number of changes that make a pair of two brackets, for all brackets [first second]."""
    opens = np.array(list(map(opens_phrase, brackets)), dtype=bool)
    names = {label: number for number, label in enumerate(sorted({bracket[1:] for bracket in brackets}))}
    labels = np.array([names[bracket[1:]] for bracket in brackets], dtype=np.int64)
    changed_kinds = (~opens).astype(np.int64)[:, None] + opens.astype(np.int64)[None, :]
    # A bracket whose kind is replaced takes the label of its partner.
    return np.where(changed_kinds == 0, labels[:, None] != labels[None, :], changed_kinds).astype(np.int64)


def _fewest_changes(costs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Fewest changes that balance the brackets from `first` to before `end`, for all spans [first end]."""
    size = len(costs)
    fewest = np.zeros((size + 2, size + 2), dtype=np.int64)
    for length in range(1, size + 1):  # all spans of a length at once
        first = np.arange(size - length + 1)[:, None]
        partners = first + np.arange(1, length)[None, :]
        paired = fewest[first + 1, partners] + costs[first, partners] + fewest[partners + 1, first + length]
        deleted = fewest[first + 1, first + length].squeeze(1) + 1
        fewest[first[:, 0], first[:, 0] + length] = np.minimum(deleted, paired.min(1, initial=size + 1))
    return fewest
