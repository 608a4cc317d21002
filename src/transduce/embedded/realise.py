"""From an abstract sentence to text: detokenised lines of both languages, the tree as a line, the word alignment."""

from typing import NamedTuple

from transduce.embedded.english import clauses as english
from transduce.embedded.english.tree import Branch, Leaf, bracketed, leaves_of
from transduce.embedded.german import clauses as german
from transduce.embedded.german.phrases import Word
from transduce.embedded.syntax import Sentence


class Example(NamedTuple):
    """An English sentence, its German, the Penn-style tree of the English, and which words belong together.

    `alignment` holds pairs of positions in `source_tokens` and `target_tokens`, where punctuation stands apart.
    """

    source: str
    target: str
    tree: str
    alignment: tuple[tuple[int, int], ...]
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]


class Source(NamedTuple):
    """The English of a sentence: its tree, the leaves of that, and the line they make."""

    tree: Branch
    leaves: list[Leaf]
    line: str


def source(said: Sentence) -> Source:
    """A sentence in English."""
    tree = _capitalised(english.sentence(said))
    leaves = leaves_of(tree)
    return Source(tree, leaves, detokenised([leaf.text for leaf in leaves]))


def example(said: Sentence, english: Source) -> Example:
    """A sentence in both languages; `english` is what `source` made of it."""
    words = tidied(german.sentence(said))
    first = words[0].text
    words[0] = words[0]._replace(text=first[0].upper() + first[1:])
    texts = tuple([word.text for word in words])
    return Example(
        source=english.line,
        target=detokenised(texts),
        tree=bracketed(english.tree),
        alignment=aligned(english.leaves, words),
        source_tokens=tuple([leaf.text for leaf in english.leaves]),
        target_tokens=texts,
    )


def _capitalised(tree: Branch) -> Branch:
    """The same tree with a capital at its first word."""
    first, *rest = tree.children
    if isinstance(first, Branch):
        return Branch(tree.label, [_capitalised(first), *rest])
    return Branch(tree.label, [first._replace(text=first.text[0].upper() + first.text[1:]), *rest])


def tidied(words: list[Word]) -> list[Word]:
    """One comma where two clauses end or one begins, none at the start or before the end."""
    kept: list[Word] = []
    for word in words:
        if kept and kept[-1].text == "," and word.text in ",.?":
            kept[-1] = word._replace(keys=kept[-1].keys + word.keys)
        elif kept or word.text != ",":
            kept.append(word)
    return kept


def detokenised(tokens: tuple[str, ...] | list[str]) -> str:
    """The tokens as text: punctuation and the possessive mark cling to what precedes, "can not" is one word."""
    text = " ".join(tokens)
    for mark in (",", ".", "?", "'s", "' "):
        text = text.replace(f" {mark}", mark)
    return text.replace("can not ", "cannot ")


def aligned(leaves: list[Leaf], words: list[Word]) -> tuple[tuple[int, int], ...]:
    """All pairs of positions whose words stand for the same thing."""
    places: dict[tuple[int, str], list[int]] = {}
    for position, leaf in enumerate(leaves):
        for key in leaf.keys:
            places.setdefault(key, []).append(position)
    found = {
        (source, target) for target, word in enumerate(words) for key in word.keys for source in places.get(key, ())
    }
    return tuple(sorted(found))
