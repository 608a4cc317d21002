"""Linearisations: a tree without its words as a sequence of symbols, and the tree back from symbols and words.

A part of speech is a bare symbol and stands for the next word of the sentence. A phrase has an opening symbol, "(" and
its label, and a closing symbol, ")" and its label (Vinyals et al. 2015; the authors of the paper write NP and /NP for
(NP and )NP). The linearisations differ in the place of the opening symbol. `(S (NP (PRP It)) (VP (VBZ works)))` is

    top down    (S (NP PRP )NP (VP VBZ )VP )S
    in order    PRP (NP )NP (S VBZ (VP )VP )S
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from transduce.settings import Spec
from transduce.text.trees import Tree, escape_word

NORMALISED_TAG = "XX"

# Measures tell punctuation by its part of speech, which the word alone decides.
PUNCTUATION_TAGS = {
    **dict.fromkeys(".?!", "."),
    ",": ",",
    **dict.fromkeys((":", ";", "-", "--", "...", "–", "—"), ":"),
    **dict.fromkeys(("``", "“"), "``"),
    **dict.fromkeys(('"', "''", "”"), "''"),
    "(": "-LRB-",
    ")": "-RRB-",
}

Tags = Annotated[
    Literal["predicted", "normalised"],
    Field(description="`normalised` writes XX for every part of speech, so that the model predicts none."),
]


class TopDown(Spec):
    """The opening symbol of a phrase stands before its first part (Vinyals et al. 2015)."""

    kind: Literal["top_down"] = "top_down"
    tags: Tags = "predicted"

    def symbols(self, tree: Tree) -> Iterator[str]:
        """Yields the symbols of a cleaned tree."""
        if tree.is_preterminal:
            yield _tag(self, tree)
            return
        yield f"({tree.label}"
        for child in _nodes(tree):
            yield from self.symbols(child)
        yield f"){tree.label}"

    def tree(self, symbols: Sequence[str], words: Sequence[str]) -> Tree:
        """Returns the tree of `symbols` over `words`; raises ValueError where they make no tree over these words."""
        return _build_tree(self, symbols, words, lambda parts: [])


class InOrder(Spec):
    """The opening symbol of a phrase stands after its first part (Liu and Zhang 2017)."""

    kind: Literal["in_order"] = "in_order"
    tags: Tags = "predicted"

    def symbols(self, tree: Tree) -> Iterator[str]:
        """Yields the symbols of a cleaned tree."""
        if tree.is_preterminal:
            yield _tag(self, tree)
            return
        first, *others = _nodes(tree)
        yield from self.symbols(first)
        yield f"({tree.label}"
        for child in others:
            yield from self.symbols(child)
        yield f"){tree.label}"

    def tree(self, symbols: Sequence[str], words: Sequence[str]) -> Tree:
        """Returns the tree of `symbols` over `words`; raises ValueError where they make no tree over these words."""
        if any(opens_phrase(left) and opens_phrase(right) for left, right in pairwise(symbols)):
            raise ValueError("two phrases open without a part between them")
        return _build_tree(self, symbols, words, _take_last)


def opens_phrase(symbol: str) -> bool:
    """Whether a symbol opens a phrase."""
    return symbol.startswith("(")


def closes_phrase(symbol: str) -> bool:
    """Whether a symbol closes a phrase; one that neither opens nor closes a phrase is a part of speech."""
    return symbol.startswith(")")


def preterminal(linearisation: "TopDown | InOrder", tag: str, word: str) -> Tree:
    """Returns a word under the part of speech that a symbol stands for."""
    return preterminal_without_tag(word) if linearisation.tags == "normalised" else Tree(tag, (escape_word(word),))


def preterminal_without_tag(word: str) -> Tree:
    """Returns a word under XX, or under its part of speech where it is punctuation."""
    return Tree(PUNCTUATION_TAGS.get(word, NORMALISED_TAG), (escape_word(word),))


LinearisationSpec = Annotated[TopDown | InOrder, Field(discriminator="kind")]


def _tag(linearisation: TopDown | InOrder, preterminal: Tree) -> str:
    """Returns the symbol of a part of speech."""
    return NORMALISED_TAG if linearisation.tags == "normalised" else preterminal.label


def _nodes(tree: Tree) -> list[Tree]:
    """Returns the parts of a phrase of a cleaned tree, none of which is a word."""
    nodes = [child for child in tree.children if isinstance(child, Tree)]
    assert len(nodes) == len(tree.children) > 0, "the tree is not cleaned"
    return nodes


def _build_tree(
    linearisation: "TopDown | InOrder",
    symbols: Sequence[str],
    words: Sequence[str],
    first_parts: Callable[[list[Tree]], list[Tree]],
) -> Tree:
    """Returns the tree of `symbols`; `first_parts` takes the parts of a phrase from those before its opening symbol."""
    labels, parts, remaining = list[str](), [list[Tree]()], iter(words)
    for symbol in symbols:
        if opens_phrase(symbol):
            parts.append(first_parts(parts[-1]))
            labels.append(symbol[1:])
        elif closes_phrase(symbol):
            _close(symbol, labels, parts)
        else:
            word = next(remaining, None)
            if word is None:
                raise ValueError(f"there is no word for {symbol}")
            parts[-1].append(preterminal(linearisation, symbol, word))
    return _single_root(labels, parts, remaining)


def _take_last(parts: list[Tree]) -> list[Tree]:
    """Removes and returns the last part; raises ValueError where there is none."""
    if not parts:
        raise ValueError("a phrase opens without a first part")
    return [parts.pop()]


def _close(symbol: str, labels: list[str], parts: list[list[Tree]]) -> None:
    """Ends the open phrase; raises ValueError where none with the label of `symbol` is open, or where it is empty."""
    if not labels or labels[-1] != symbol[1:]:
        raise ValueError(f"{symbol} closes a phrase that is not open")
    if not parts[-1]:
        raise ValueError(f"{symbol} closes an empty phrase")
    phrase = Tree(labels.pop(), tuple(parts.pop()))
    parts[-1].append(phrase)


def _single_root(labels: Sequence[str], parts: Sequence[Sequence[Tree]], remaining: Iterator[str]) -> Tree:
    """Returns the one finished tree; raises ValueError where a phrase is open, or a word is left over."""
    if labels:
        raise ValueError(f"({labels[-1]} is not closed")
    if next(remaining, None) is not None:
        raise ValueError("a word is left over")
    if len(parts[0]) != 1:
        raise ValueError(f"there are {len(parts[0])} roots")
    return parts[0][0]
