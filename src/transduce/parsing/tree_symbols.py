"""The symbols of linearised trees: writes a tree without its words as symbols, and rebuilds it from symbols and words.

A part of speech is a bare symbol and stands for the next word of the sentence. A phrase has an opening symbol, "(" and
its label, and a closing symbol, ")" and its label (Vinyals et al. 2015; the authors of the paper write NP and /NP for
(NP and )NP). The linearisations differ in the place of the opening symbol. `(S (NP (PRP It)) (VP (VBZ works)))` is

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

# Metrics recognise punctuation by its part of speech, which depends only on the word.
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
    """Builds the tree of `symbols` over `words`; raises ValueError if they do not make a tree."""
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
    """Whether a symbol opens a phrase."""
    return symbol.startswith("(")


def closes_phrase(symbol: str) -> bool:
    """Whether a symbol closes a phrase. A symbol that neither opens nor closes a phrase is a part of speech."""
    return symbol.startswith(")")


def preterminal(linearisation: TopDown | InOrder, tag: str, word: str) -> Tree:
    """A word under the part of speech that a symbol stands for."""
    return preterminal_without_tag(word) if linearisation.tags == "normalised" else Tree(tag, (escape_word(word),))


def preterminal_without_tag(word: str) -> Tree:
    """A word under XX, or under its part of speech if it is punctuation."""
    return Tree(PUNCTUATION_TAGS.get(word, NORMALISED_TAG), (escape_word(word),))


def is_tag(vocabulary: SymbolVocabulary) -> NDArray[np.bool_]:
    """Whether each id is a part of speech, which stands for a word [vocabulary]."""
    flags = [not opens_phrase(symbol) and not closes_phrase(symbol) for symbol in vocabulary.symbols]
    return np.array([False] * (UNKNOWN + 1) + flags[UNKNOWN + 1 :])


def same_kind(vocabulary: SymbolVocabulary, token: int, size: int) -> list[int]:
    """Ids below `size` of the same kind as `token`: they open a phrase, close one, or stand for a word."""
    kinds = [(opens_phrase(symbol), closes_phrase(symbol)) for symbol in vocabulary.symbols]
    return [old for old in range(UNKNOWN + 1, size) if kinds[old] == kinds[token]]
