"""Trees: reading loses nothing, faults are named by line, and cleaning does what its docstring says."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.parsing.trees import (
    MAX_BRACKET_DEPTH,
    Tree,
    bare_label,
    clean_tree,
    escape_word,
    format_tree,
    parse_tree,
    preterminals,
    read_trees,
    unescape_word,
    words_of,
)

DATA = Path(os.environ.get("TRANSDUCE_DATA", "/nonexistent"))
TREEBANKS = {"craft-treebank": "*/*.tree", "ptb-sample": "*.mrg"}

LABELS = st.sampled_from(["S", "NP", "NP-SBJ-1", "VP", "PP-LOC", "-NONE-", "-LRB-", "PRP$", ",", "X"])
WORDS = st.sampled_from(["it", "-LRB-", "*T*-1", "1\\/2", "ünïcode", "``", "a-b", "0", "'s", "#1"])
TREES = st.recursive(
    st.builds(lambda label, word: Tree(label, (word,)), LABELS, WORDS),
    lambda parts: st.builds(
        lambda label, nodes: Tree(label, tuple(nodes)), LABELS, st.lists(parts, min_size=1, max_size=4)
    ),
    max_leaves=12,
)


def normalised(text: str) -> str:
    """Returns brackets with the least white space."""
    return re.sub(r"\s*([()])\s*", r"\1", " ".join(text.split()))


@given(tree=TREES)
def test_a_written_tree_is_read_as_the_same(tree: Tree) -> None:
    assert parse_tree(format_tree(tree)) == tree


@pytest.mark.parametrize("treebank", ["ptb-sample", pytest.param("craft-treebank", marks=pytest.mark.slow)])
def test_no_tree_of_a_treebank_is_lost_or_changed(treebank: str) -> None:
    if not (DATA / treebank).is_dir():
        pytest.skip(f"TRANSDUCE_DATA has no {treebank}")
    count = 0
    for path in sorted((DATA / treebank).glob(TREEBANKS[treebank])):
        text = path.read_text("utf-8")
        trees = [tree for _, tree in read_trees(text.split("\n"), str(path))]
        assert normalised("".join(map(format_tree, trees))) == normalised(text)
        count += len(trees)
        assert all(words_of(cleaned) for tree in trees if (cleaned := clean_tree(tree)))
    assert count == {"craft-treebank": 21_731, "ptb-sample": 3_796}[treebank]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("( (S (NP (PRP It))\n    (VP (VBZ works))) )", ["( (S (NP (PRP It)) (VP (VBZ works))))"]),
        ("(TOP (X a)) (ROOT (X b))\n(S1 (X c))", ["(TOP (X a))", "(ROOT (X b))", "(S1 (X c))"]),
        ("# a comment (\n*x*x*x*\n\n(X a)\n; another\n(X b)", ["(X a)", "(X b)"]),
        ("", []),
        ("\n \t\n", []),
        ("((X a)(Y b))", ["( (X a) (Y b))"]),
        ("(X # a)", ["(X # a)"]),
        ("(NN Xpd †)", ["(NN Xpd †)"]),
    ],
)
def test_brackets_of_any_make_are_read(text: str, written: list[str]) -> None:
    assert [format_tree(tree) for _, tree in read_trees(text.split("\n"), "file")] == written


def test_lines_of_trees_are_those_on_which_they_begin() -> None:
    assert [line for line, _ in read_trees(["", "(X a) (X b)", "(S", "(X c))", "(X d)"], "file")] == [2, 2, 3, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(X a)\n(S (X b)", "the tree that begins on line 2 lacks a closing"),
        ("(X a)\n)", "line 2 closes a bracket that none opens"),
        ("(X a)\nword (X b)", "line 2 has 'word' outside of a tree"),
        ("(" * (MAX_BRACKET_DEPTH + 1), f"line 1: more than {MAX_BRACKET_DEPTH} brackets are open"),
    ],
)
def test_a_broken_tree_is_named_by_file_and_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^trees.mrg: {re.escape(message)}"):
        list(read_trees(text.split("\n"), "trees.mrg"))


@pytest.mark.parametrize("text", ["", "(X a) (X b)"])
def test_one_tree_is_one_tree(text: str) -> None:
    with pytest.raises(ValueError, match="trees; give one"):
        parse_tree(text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("( (S (NP-SBJ-1 (PRP It)) (VP (VBZ works) (NP=2 (-NONE- *T*-1)))) )", "(S (NP (PRP It)) (VP (VBZ works)))"),
        ("(TOP (S1 (S (X a))))", "(S (X a))"),
        ("(NP (NP (NP (NN a))))", "(NP (NN a))"),
        ("(NP (NP (NN a)) (NP (NN b)))", "(NP (NP (NN a)) (NP (NN b)))"),
        ("(S (ADVP|PRT (RB a)) (-LRB- -LRB-) (PRP$ its))", "(S (ADVP (RB a)) (-LRB- -LRB-) (PRP$ its))"),
        ("( (A (X a)) (B (Y b)) )", "(TOP (A (X a)) (B (Y b)))"),
        ("(NP (NN Xpd †) (CC and))", "(NP (NN Xpd) (NN †) (CC and))"),
        ("(X (X a))", "(X (X a))"),
    ],
)
def test_cleaning_removes_what_is_no_phrase(text: str, cleaned: str) -> None:
    assert format_tree(clean_tree(parse_tree(text)) or Tree("", ())) == cleaned


def test_nothing_is_left_of_traces() -> None:
    assert clean_tree(parse_tree("( (S (NP (-NONE- *)) (VP (-NONE- *T*-1))) )")) is None


@pytest.mark.parametrize(
    ("text", "message"), [("(S (NP))", "(NP) is empty"), ("(S word (X a))", "has no part of speech")]
)
def test_a_word_without_a_part_of_speech_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        clean_tree(parse_tree(text))


@pytest.mark.parametrize(
    ("label", "bare"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("ADVP|PRT", "ADVP"),
        ("-NONE-", "-NONE-"),
        ("-LRB-", "-LRB-"),
        ("WP$", "WP$"),
    ],
)
def test_function_tags_are_what_follows_the_label(label: str, bare: str) -> None:
    assert bare_label(label) == bare


def test_words_are_written_with_escapes_and_read_without() -> None:
    assert (escape_word("("), escape_word("a[1]"), escape_word("x")) == ("-LRB-", "a-LSB-1-RSB-", "x")
    assert [unescape_word(word) for word in ("-LRB-", "a-LSB-1-RSB-", "1\\/2", "``", "''", "x")] == [
        "(",
        "a[1]",
        "1/2",
        '"',
        '"',
        "x",
    ]
    assert [node.label for node in preterminals(parse_tree("(S (A a) (B (C c)))"))] == ["A", "C"]
