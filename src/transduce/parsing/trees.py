"""Reads, writes and cleans phrase-structure trees in bracket notation.

A file may have one tree per line or several lines per tree, with or without an empty outer label. Reading preserves
everything except white space. Cleaning is a separate step: parsers are trained on the trees that `clean_tree` returns.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_BRACKET_DEPTH = 400
"""The largest depth of a tree that can be read. The deepest tree in the Penn Treebank has about forty levels."""

OUTER_LABELS = ("", "TOP", "ROOT", "S1", "VROOT")
"""The labels of brackets around a whole tree, which are not phrases."""

EMPTY_ELEMENT = "-NONE-"
"""The part of speech of traces and other elements that are not words of the sentence."""

# How the Penn Treebank writes brackets that occur in words.
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
BRACKETS = {bracket: escape for escape, bracket in ESCAPES.items()}

_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r"\s*(?:[#%;]|\*x\*)")  # the beginnings of comments in treebanks and in files of other tools


class Tree(NamedTuple):
    """A node of a tree: a phrase with its parts, or a part of speech with its word."""

    label: str  # "" for an outer bracket without a label
    children: "tuple[Tree | str, ...]"

    @property
    def is_preterminal(self) -> bool:
        """Whether the node is a part of speech with exactly one word."""
        return len(self.children) == 1 and isinstance(self.children[0], str)


def read_trees(lines: Iterable[str], name: str) -> Iterator[tuple[int, Tree]]:
    """Yields every tree of the file `name`, with the number of the line on which it begins, counted from 1.

    Lines between trees that begin with `#`, `%`, `;` or `*x*` are comments and are skipped. Raises ValueError, with the
    number of the line, if brackets do not match, if they are nested too deeply, or if there is text outside brackets.
    """
    labels: list[str] = []  # labels of the open brackets
    children: list[list[Tree | str]] = []  # parts of the open brackets
    previous, first_line = "", 0
    for number, line in enumerate(lines, start=1):
        if not labels and is_comment(line):
            continue
        for token in _TOKEN.findall(line):
            if token == "(":
                first_line = first_line if labels else number
                labels.append("")
                children.append([])
                if len(labels) > MAX_BRACKET_DEPTH:
                    raise ValueError(
                        f"{name}: line {number}: more than {MAX_BRACKET_DEPTH} brackets are open: this is not a tree"
                    )
            elif not labels:
                reason = "closes a bracket that none opens" if token == ")" else f"has {token[:40]!r} outside of a tree"
                raise ValueError(f"{name}: line {number} {reason}; mend the line, or remove it")
            elif token == ")":
                tree = Tree(labels.pop(), tuple(children.pop()))
                if labels:
                    children[-1].append(tree)
                else:
                    yield first_line, tree
            elif previous == "(":
                labels[-1] = token
            else:
                children[-1].append(token)
            previous = token
    if labels:
        missing = "a closing bracket" if len(labels) == 1 else f"{len(labels)} closing brackets"
        raise ValueError(f"{name}: the tree that begins on line {first_line} lacks {missing}; mend it, or remove it")


def is_comment(line: str) -> bool:
    """Returns whether a line between trees is a comment."""
    return _COMMENT.match(line) is not None


def parse_tree(text: str) -> Tree:
    """Parses a text that contains a single tree; raises ValueError if it contains none or several."""
    trees = [tree for _, tree in read_trees([text], "the text")]
    if len(trees) != 1:
        raise ValueError(f"{text[:60]!r} has {len(trees)} trees; give one")
    return trees[0]


def format_tree(tree: Tree) -> str:
    """Returns a tree in brackets on a single line, from which `parse_tree` reads the same tree."""
    parts = (child if isinstance(child, str) else format_tree(child) for child in tree.children)
    return f"({' '.join((tree.label, *parts))})"


def preterminals(tree: Tree) -> list[Tree]:
    """Returns the parts of speech of a tree with their words, from left to right.

    A part of speech with several words is split into one for each word. Raises ValueError if a word has no part of
    speech, or if a bracket is empty.
    """
    if _has_only_words(tree):
        return [tree._replace(children=(word,)) for word in tree.children]
    if not tree.children:
        raise ValueError(f"the bracket ({tree.label}) is empty; remove it")
    nodes = []
    for child in tree.children:
        if isinstance(child, str):
            raise ValueError(f"the word {child!r} in ({tree.label} …) has no part of speech; write (TAG {child})")
        nodes += preterminals(child)
    return nodes


def bare_label(label: str) -> str:
    """Removes function tags and indices from a label: NP-SBJ-1 and NP=2 become NP. Keeps -NONE-, -LRB- and =."""
    if label.startswith("-"):
        return label
    return re.split(r"[-=|]", label, maxsplit=1)[0] or label


def clean_tree(tree: Tree) -> Tree | None:
    """Returns the cleaned form of a tree, on which parsers are trained, or None if nothing is left.

    Cleaning removes traces, phrases that contain nothing but traces, function tags, indices and an outer label. If the
    only part of a phrase is another phrase with the same label, only one of the two is kept. A part of speech with
    several words is split into one for each word. Raises ValueError if a word has no part of speech, or if a bracket is
    empty.
    """
    preterminals(tree)
    nodes = _clean(tree)
    while len(nodes) == 1 and nodes[0].label in OUTER_LABELS and not nodes[0].is_preterminal:
        nodes = [child for child in nodes[0].children if isinstance(child, Tree)]
    if len(nodes) > 1:  # an outer bracket with several parts is kept as a phrase
        return Tree("TOP", tuple(nodes))
    return nodes[0] if nodes else None


def _clean(tree: Tree) -> list[Tree]:
    """Returns the nodes that replace a node after cleaning: none, one, or one for each word of a part of speech."""
    label = bare_label(tree.label)
    if _has_only_words(tree):
        return [] if label == EMPTY_ELEMENT else [Tree(label, (word,)) for word in tree.children]
    children = [kept for child in tree.children if isinstance(child, Tree) for kept in _clean(child)]
    if len(children) == 1 and children[0].label == label and not children[0].is_preterminal:
        return children
    return [Tree(label, tuple(children))] if children else []


def _has_only_words(tree: Tree) -> bool:
    """Returns whether a node is a part of speech. In the CRAFT treebank, a few parts of speech have several words."""
    return bool(tree.children) and all(isinstance(child, str) for child in tree.children)


def escape_word(word: str) -> str:
    """Returns a word as trees spell it: brackets become -LRB- and so on, even inside longer words."""
    return "".join(BRACKETS.get(letter, letter) for letter in word)


def unescape_word(word: str) -> str:
    """Returns a word of a tree as ordinary text spells it.

    Restores brackets, replaces the quotation marks of treebanks with plain ones, and removes the backslash before `/`
    and `*`.
    """
    if word in ("``", "''"):
        return '"'
    for escape, bracket in ESCAPES.items():
        word = word.replace(escape, bracket)
    return word.replace("\\/", "/").replace("\\*", "*")


def words_of(tree: Tree) -> list[str]:
    """Returns the words of a cleaned tree as ordinary text spells them."""
    return [unescape_word(word) for node in preterminals(tree) for word in node.children if isinstance(word, str)]
