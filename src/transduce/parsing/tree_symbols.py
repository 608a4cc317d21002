"""Linearises a tree, without its words, as a sequence of symbols, and rebuilds the tree from the symbols and the words.

A part of speech is a symbol without a bracket, and stands for the next word of the sentence. A phrase has an opening
symbol, "(" followed by its label, and a closing symbol, ")" followed by its label (Vinyals et al. 2015). The authors of
the paper write NP and /NP instead of (NP and )NP. The linearisations differ in the position of the opening symbol. For
example, the tree `(S (NP (PRP It)) (VP (VBZ works)))` is written as

    top down    (S (NP PRP )NP (VP VBZ )VP )S
    in order    PRP (NP )NP (S VBZ (VP )VP )S
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from transduce.parsing.trees import Tree, escape_word
from transduce.text.symbol_vocabulary import UNKNOWN, SymbolVocabulary
from transduce.text.tree_linearisation import InOrder, TopDown

NORMALISED_TAG = "XX"

# The parts of speech of punctuation, by which metrics recognise it. They depend only on the word.
PUNCTUATION_TAGS = {
    **dict.fromkeys(".?!", "."),
    ",": ",",
    **dict.fromkeys((":", ";", "-", "--", "...", "–", "—"), ":"),
    **dict.fromkeys(("``", "“"), "``"),
    **dict.fromkeys(('"', "''", "”"), "''"),
    "(": "-LRB-",
    ")": "-RRB-",
}


def symbols_of(tree: Tree, linearisation: TopDown | InOrder) -> Iterator[str]:
    """Yields the symbols of a cleaned tree."""
    if tree.is_preterminal:
        yield NORMALISED_TAG if linearisation.tags == "normalised" else tree.label
        return
    first, *others = [child for child in tree.children if isinstance(child, Tree)]
    assert len(others) + 1 == len(tree.children), "the tree is not cleaned"
    if isinstance(linearisation, InOrder):
        yield from symbols_of(first, linearisation)
        yield f"({tree.label}"
    else:
        yield f"({tree.label}"
        yield from symbols_of(first, linearisation)
    for child in others:
        yield from symbols_of(child, linearisation)
    yield f"){tree.label}"


def tree_of(symbols: Sequence[str], words: Sequence[str], linearisation: TopDown | InOrder) -> Tree:
    """Builds the tree over `words` that `symbols` describe; raises ValueError if they do not form a tree."""
    in_order = isinstance(linearisation, InOrder)
    if in_order and any(opens_phrase(left) and opens_phrase(right) for left, right in pairwise(symbols)):
        raise ValueError("two phrases open without a part between them")
    labels, parts, remaining = list[str](), [list[Tree]()], iter(words)
    for symbol in symbols:
        if opens_phrase(symbol):
            if in_order and not parts[-1]:
                raise ValueError("a phrase opens without a first part")
            parts.append([parts[-1].pop()] if in_order else [])
            labels.append(symbol[1:])
        elif closes_phrase(symbol):
            if not labels or labels[-1] != symbol[1:]:
                raise ValueError(f"{symbol} closes a phrase that is not open")
            if not parts[-1]:
                raise ValueError(f"{symbol} closes an empty phrase")
            phrase = Tree(labels.pop(), tuple(parts.pop()))
            parts[-1].append(phrase)
        else:
            word = next(remaining, None)
            if word is None:
                raise ValueError(f"there is no word for {symbol}")
            parts[-1].append(preterminal(linearisation, symbol, word))
    if labels:
        raise ValueError(f"({labels[-1]} is not closed")
    if next(remaining, None) is not None:
        raise ValueError("a word is left over")
    if len(parts[0]) != 1:
        raise ValueError(f"there are {len(parts[0])} roots")
    return parts[0][0]


def opens_phrase(symbol: str) -> bool:
    """Returns whether a symbol opens a phrase."""
    return symbol.startswith("(")


def closes_phrase(symbol: str) -> bool:
    """Returns whether a symbol closes a phrase. A symbol that neither opens nor closes a phrase is a part of speech."""
    return symbol.startswith(")")


def preterminal(linearisation: TopDown | InOrder, tag: str, word: str) -> Tree:
    """Returns the node of a word with the part of speech `tag`, which is ignored if all tags are normalised."""
    return preterminal_without_tag(word) if linearisation.tags == "normalised" else Tree(tag, (escape_word(word),))


def preterminal_without_tag(word: str) -> Tree:
    """Returns the node of a word with the part of speech XX, or with its own part of speech if it is punctuation."""
    return Tree(PUNCTUATION_TAGS.get(word, NORMALISED_TAG), (escape_word(word),))


def is_tag(vocabulary: SymbolVocabulary) -> NDArray[np.bool_]:
    """Returns an array [vocabulary] that is True for the ids of parts of speech, which stand for words."""
    flags = [not opens_phrase(symbol) and not closes_phrase(symbol) for symbol in vocabulary.symbols]
    return np.array([False] * (UNKNOWN + 1) + flags[UNKNOWN + 1 :])


def same_kind(vocabulary: SymbolVocabulary, token: int, size: int) -> list[int]:
    """Returns the ids below `size` that are of the same kind as `token`.

    There are three kinds of ids: those that open a phrase, those that close a phrase, and those that stand for a word.
    """
    kinds = [(opens_phrase(symbol), closes_phrase(symbol)) for symbol in vocabulary.symbols]
    return [old for old in range(UNKNOWN + 1, size) if kinds[old] == kinds[token]]
