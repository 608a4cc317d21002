"""Repairs symbols that do not form a tree.

First the brackets are balanced with the fewest changes. Then surplus or missing words and roots are corrected.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from transduce.parsing.tree_symbols import closes_phrase, opens_phrase, preterminal, preterminal_without_tag
from transduce.parsing.trees import Tree
from transduce.text.tree_linearisation import InOrder, TopDown

ROOT = "S"
"""The label of the root that is added if there are several roots."""

MAX_BRACKETS = 1000
"""The largest number of brackets to balance. If there are more, all are removed, because balancing takes cubic time."""

MAX_DEPTH = 100
"""The largest depth of a repaired tree. Phrases nested more deeply are removed. The treebanks have up to 29 levels."""


def flat_tree(words: Sequence[str]) -> Tree:
    """Returns a tree with a single phrase over all words, for a sentence without a parse.

    The label of the phrase is X, which treebanks use for phrases of an unknown kind.
    """
    return Tree("X", tuple(map(preterminal_without_tag, words)))


def repair_tree(symbols: Sequence[str], words: Sequence[str], linearisation: TopDown | InOrder) -> Tree:
    """Returns a valid tree over `words` that stays close to `symbols`.

    The brackets are balanced with the fewest deletions and replacements. Then surplus parts of speech and empty phrases
    are removed, and words without a part of speech are added to the root. If there are several roots, a new root is
    added above them.
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
    """Balances the brackets in `symbols` with the fewest changes. All other symbols are kept.

    A change deletes a bracket or replaces it with another bracket. Insertions are not needed, because inserting the
    missing bracket of a pair costs as much as deleting its other bracket.
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
    while spans:  # keep the pairs that result from the fewest changes, and delete all other brackets
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
    """Returns, for every two brackets [first second], the number of changes that turn them into a pair."""
    opens = np.array(list(map(opens_phrase, brackets)), dtype=bool)
    names = {label: number for number, label in enumerate(sorted({bracket[1:] for bracket in brackets}))}
    labels = np.array([names[bracket[1:]] for bracket in brackets], dtype=np.int64)
    changed_kinds = (~opens).astype(np.int64)[:, None] + opens.astype(np.int64)[None, :]
    # A bracket whose kind is replaced takes the label of its partner.
    return np.where(changed_kinds == 0, labels[:, None] != labels[None, :], changed_kinds).astype(np.int64)


def _fewest_changes(costs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns, for every span [first end], the fewest changes that balance its brackets. `end` is exclusive."""
    size = len(costs)
    fewest = np.zeros((size + 2, size + 2), dtype=np.int64)
    for length in range(1, size + 1):  # all spans of the same length are computed at once
        first = np.arange(size - length + 1)[:, None]
        partners = first + np.arange(1, length)[None, :]
        paired = fewest[first + 1, partners] + costs[first, partners] + fewest[partners + 1, first + length]
        deleted = fewest[first + 1, first + length].squeeze(1) + 1
        fewest[first[:, 0], first[:, 0] + length] = np.minimum(deleted, paired.min(1, initial=size + 1))
    return fewest
