"""Trees: constituents whose leaves remember what they stand for, and the bracketed lines that say them."""

from typing import NamedTuple, TypeAlias

Key: TypeAlias = tuple[int, str]  # a node of the abstract sentence and which of its words


class Leaf(NamedTuple):
    """A word, its tag, and what it stands for."""

    tag: str
    text: str
    keys: tuple[Key, ...] = ()


class Branch(NamedTuple):
    """A constituent."""

    label: str
    children: "list[Tree]"


Tree: TypeAlias = Leaf | Branch


def leaves_of(tree: Tree) -> list[Leaf]:
    """The leaves from left to right."""
    if isinstance(tree, Leaf):
        return [tree]
    return [leaf for child in tree.children for leaf in leaves_of(child)]


def first_leaf(tree: Tree) -> Leaf:
    """The leftmost leaf."""
    while isinstance(tree, Branch):
        tree = tree.children[0]
    return tree


def bracketed(tree: Tree) -> str:
    """A tree as one line."""
    if isinstance(tree, Leaf):
        return f"({tree.tag} {tree.text})"
    return f"({tree.label} {' '.join([bracketed(child) for child in tree.children])})"


def parsed(line: str) -> Tree:
    """The tree that a bracketed line says, without keys."""
    stack: list[list[str | Tree]] = [[]]
    for part in line.replace("(", " ( ").replace(")", " ) ").split():
        if part == "(":
            stack.append([])
        elif part == ")":
            stack[-2].append(_constituent(*stack.pop()))
        else:
            stack[-1].append(part)
    (tree,) = stack[0]
    assert not isinstance(tree, str)
    return tree


def _constituent(label: str | Tree, *parts: str | Tree) -> Tree:
    """A leaf or a branch, from what stood between two brackets."""
    assert isinstance(label, str)
    if isinstance(parts[0], str):
        return Leaf(label, parts[0])
    return Branch(label, [part for part in parts if not isinstance(part, str)])
