"""From an abstract sentence to text: detokenised lines of both languages, the tree as a line, the word alignment."""

from typing import NamedTuple

from transduce.embedded import english, german
from transduce.embedded.english import Branch, Leaf, Tree
from transduce.embedded.german import Word
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


def example(said: Sentence) -> Example:
    """A sentence in both languages."""
    tree = capitalised(english.sentence(said))
    words = tidied(german.sentence(said))
    words[0] = words[0]._replace(text=words[0].text[0].upper() + words[0].text[1:])
    leaves = list(leaves_of(tree))
    source = tuple(leaf.text for leaf in leaves)
    target = tuple(word.text for word in words)
    return Example(detokenised(source), detokenised(target), bracketed(tree), aligned(leaves, words), source, target)


def leaves_of(tree: Tree) -> list[Leaf]:
    """The leaves from left to right."""
    if isinstance(tree, Leaf):
        return [tree]
    return [leaf for child in tree.children for leaf in leaves_of(child)]


def capitalised(tree: Branch) -> Branch:
    """The same tree with a capital at its first word."""
    first, *rest = tree.children
    if isinstance(first, Branch):
        return Branch(tree.label, [capitalised(first), *rest])
    return Branch(tree.label, [first._replace(text=first.text[0].upper() + first.text[1:]), *rest])


def bracketed(tree: Tree) -> str:
    """A tree as one line."""
    if isinstance(tree, Leaf):
        return f"({tree.tag} {tree.text})"
    return f"({tree.label} {' '.join([bracketed(child) for child in tree.children])})"


def tidied(words: list[Word]) -> list[Word]:
    """One comma where two clauses end or one begins, none before the end."""
    kept: list[Word] = []
    for word in words:
        if kept and kept[-1].text == "," and word.text in ",.?":
            kept[-1] = word._replace(keys=kept[-1].keys + word.keys)
        elif kept or word.text != ",":
            kept.append(word)
    return kept


def detokenised(tokens: tuple[str, ...]) -> str:
    """The tokens as text: punctuation and the possessive mark cling to what precedes, "can not" is one word."""
    text = " ".join(tokens)
    for mark in (",", ".", "?", "'s"):
        text = text.replace(f" {mark}", mark)
    return text.replace("s ' ", "s' ").replace("can not ", "cannot ").replace("Can not ", "Cannot ")


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
