"""Penn-style trees: constituents, leaves with alignment keys, and their bracketed notation."""

from typing import NamedTuple, TypeAlias

from transduce.embedded.syntax import Key


class Leaf(NamedTuple):
    """A word, its tag and its alignment keys."""

    tag: str
    text: str
    keys: tuple[Key, ...] = ()


class Branch(NamedTuple):
    """A constituent."""

    label: str
    children: "list[Tree]"


Tree: TypeAlias = Leaf | Branch


def make_leaf(tag: str, text: str, node: object, role: str) -> Leaf:
    """Returns a leaf that is aligned to the words with this role of the same node."""
    return Leaf(tag, text, ((id(node), role),))


def leaves_of(tree: Tree) -> list[Leaf]:
    """Returns the leaves from left to right."""
    if isinstance(tree, Leaf):
        return [tree]
    return [leaf for child in tree.children for leaf in leaves_of(child)]


def first_leaf(tree: Tree) -> Leaf:
    """Returns the leftmost leaf."""
    while isinstance(tree, Branch):
        tree = tree.children[0]
    return tree


def bracketed(tree: Tree) -> str:
    """Returns the bracketed notation of a tree, on one line."""
    if isinstance(tree, Leaf):
        return f"({tree.tag} {tree.text})"
    return f"({tree.label} {' '.join([bracketed(child) for child in tree.children])})"


def parse_brackets(line: str) -> Tree:
    """Parses the bracketed notation to a tree without keys."""
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
    """Returns a leaf or a branch from the content of a pair of brackets."""
    assert isinstance(label, str)
    if isinstance(parts[0], str):
        return Leaf(label, parts[0])
    return Branch(label, [part for part in parts if not isinstance(part, str)])
