"""Turns an abstract sentence into an English–German sentence pair with a parse tree and a word alignment."""

from typing import NamedTuple

from transduce.embedded import english, german
from transduce.embedded.english import Branch, Leaf, bracketed, leaves_of
from transduce.embedded.german import Word
from transduce.embedded.syntax import Key, Sentence


class Example(NamedTuple):
    """An English sentence with its German translation, its Penn-style tree and the word alignment.

    `alignment` holds pairs of positions in `source_tokens` and `target_tokens`, where punctuation marks are separate
    tokens.
    """

    source: str
    target: str
    tree: str
    alignment: tuple[tuple[int, int], ...]
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]


class EnglishSentence(NamedTuple):
    """A sentence in English: its tree, the leaves of the tree, and the detokenised text."""

    tree: Branch
    leaves: list[Leaf]
    line: str


def realise_english(sentence: Sentence) -> EnglishSentence:
    """Returns an abstract sentence in English."""
    tree = _capitalise(english.sentence(sentence))
    leaves = leaves_of(tree)
    return EnglishSentence(tree, leaves, detokenise([leaf.text for leaf in leaves]))


def realise_pair(sentence: Sentence, source: EnglishSentence) -> Example:
    """Realises an abstract sentence in both languages, and returns the pair.

    `source` is the English sentence that `realise_english` returns for it.
    """
    words: list[Word] = []
    for word in german.sentence(sentence):  # drops commas before other punctuation, and at the start of the sentence
        if words and words[-1].text == "," and word.text in ",.?":
            words[-1] = word._replace(keys=words[-1].keys + word.keys)
        elif words or word.text != ",":
            words.append(word)
    first = words[0].text
    words[0] = words[0]._replace(text=first[0].upper() + first[1:])
    positions: dict[Key, list[int]] = {}
    for position, leaf in enumerate(source.leaves):
        for key in leaf.keys:
            positions.setdefault(key, []).append(position)
    alignment: set[tuple[int, int]] = set()  # pairs of positions whose words share a key
    for target_position, word in enumerate(words):
        for key in word.keys:
            alignment |= {(position, target_position) for position in positions.get(key, ())}
    target_tokens = tuple([word.text for word in words])
    return Example(
        source=source.line,
        target=detokenise(target_tokens),
        tree=bracketed(source.tree),
        alignment=tuple(sorted(alignment)),
        source_tokens=tuple([leaf.text for leaf in source.leaves]),
        target_tokens=target_tokens,
    )


def _capitalise(tree: Branch) -> Branch:
    """Returns a copy of the tree with its first word capitalised."""
    first, *rest = tree.children
    if isinstance(first, Branch):
        return Branch(tree.label, [_capitalise(first), *rest])
    return Branch(tree.label, [first._replace(text=first.text[0].upper() + first.text[1:]), *rest])


def detokenise(tokens: tuple[str, ...] | list[str]) -> str:
    """Joins tokens into a line of text.

    There is no space before punctuation marks or the possessive ending, and "can not" becomes one word.
    """
    text = " ".join(tokens)
    for mark in (",", ".", "?", "'s", "' "):
        text = text.replace(f" {mark}", mark)
    return text.replace("can not ", "cannot ")
