"""Linearisations, the vocabulary of their symbols, and the repair of symbols that make no tree."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from transduce.parsing.tree_repair import balance_brackets, flat_tree, repair_tree
from transduce.parsing.tree_symbols import symbols_of, tree_of
from transduce.parsing.trees import Tree, clean_tree, format_tree, parse_tree, words_of
from transduce.text.symbol_vocabulary import UNKNOWN, SymbolVocabulary
from transduce.text.token_vocabulary import load_vocabulary, parse_vocabulary
from transduce.text.tree_linearisation import InOrder, TopDown

TREE = parse_tree("(S (NP (PRP It)) (VP (VBZ works)) (. .))")
SYMBOLS = {
    TopDown(): "(S (NP PRP )NP (VP VBZ )VP . )S",
    InOrder(): "PRP (NP )NP (S VBZ (VP )VP . )S",
    TopDown(tags="normalised"): "(S (NP XX )NP (VP XX )VP XX )S",
}
LABELS = st.sampled_from(["S", "NP", "VP"])
TREES = st.recursive(
    st.builds(lambda tag, word: Tree(tag, (word,)), st.sampled_from(["NN", ",", "S"]), st.sampled_from(["a", "-LRB-"])),
    lambda parts: st.builds(
        lambda label, nodes: Tree(label, tuple(nodes)), LABELS, st.lists(parts, min_size=1, max_size=3)
    ),
    max_leaves=8,
)
KINDS = [TopDown(), InOrder()]
NOISE = st.lists(st.sampled_from(["(S", ")S", "(NP", ")NP", "NN", ","]), max_size=9)


@pytest.mark.parametrize("linearisation", SYMBOLS, ids=repr)
def test_a_tree_is_written_as_the_docstring_shows(linearisation: TopDown | InOrder) -> None:
    assert " ".join(symbols_of(TREE, linearisation)) == SYMBOLS[linearisation]


@pytest.mark.parametrize("linearisation", KINDS, ids=repr)
@given(tree=TREES)
def test_symbols_and_words_give_the_tree_back(linearisation: TopDown | InOrder, tree: Tree) -> None:
    cleaned = clean_tree(tree)
    assert cleaned is not None
    assert tree_of(list(symbols_of(cleaned, linearisation)), words_of(cleaned), linearisation) == cleaned


def test_normalised_parts_of_speech_are_punctuation_or_unknown() -> None:
    tree = tree_of(["(S", "XX", "XX", "XX", ")S"], ["(", "word", "."], TopDown(tags="normalised"))
    assert format_tree(tree) == "(S (-LRB- -LRB-) (XX word) (. .))"


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ("(S NN", "not closed"),
        ("(S NN )NP", "not open"),
        (")S", "not open"),
        ("(S (NP )NP NN )S", "empty"),
        ("(S NN NN )S", "no word for NN"),
        ("(S )S", "empty"),
        ("NN (S", "no word|not closed|left"),
        ("", "left over"),
        ("(NP NN )NP (NP NN )NP", "no word"),
    ],
)
def test_symbols_that_make_no_tree_are_refused(symbols: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree_of(symbols.split(), ["a"], TopDown())


def test_in_order_a_phrase_needs_a_first_part() -> None:
    with pytest.raises(ValueError, match="without a first part"):
        tree_of(["(S", "NN", ")S"], ["a"], InOrder())
    with pytest.raises(ValueError, match="2 roots"):
        tree_of(["NN", "NN"], ["a", "b"], InOrder())


@pytest.mark.parametrize("linearisation", KINDS, ids=repr)
@given(symbols=NOISE, words=st.lists(st.sampled_from(["a", "b", "("]), min_size=1, max_size=4))
@example(symbols=[], words=["a"])
@example(symbols=["NN"], words=["a"])
@example(symbols=[")S", "(S"], words=["a", "b"])
def test_a_repaired_tree_is_over_exactly_the_words(
    linearisation: TopDown | InOrder, symbols: list[str], words: list[str]
) -> None:
    tree = repair_tree(symbols, words, linearisation)
    assert words_of(tree) == words
    assert tree_of(list(symbols_of(tree, linearisation)), words, linearisation) == tree


@pytest.mark.parametrize("linearisation", KINDS, ids=repr)
@given(tree=TREES)
def test_the_repair_of_a_tree_is_the_tree(linearisation: TopDown | InOrder, tree: Tree) -> None:
    assert repair_tree(list(symbols_of(tree, linearisation)), words_of(tree), linearisation) == tree


def fewest_deletions_and_replacements(brackets: list[str]) -> int:
    """Returns the fewest changes, by trying all sets of changed places."""
    alphabet = ["(S", ")S", "(NP", ")NP", ""]
    for changes in range(len(brackets) + 1):
        for places in itertools.combinations(range(len(brackets)), changes):
            for choice in itertools.product(alphabet, repeat=changes):
                changed = list(brackets)
                for place, symbol in zip(places, choice, strict=True):
                    changed[place] = symbol
                if is_balanced([symbol for symbol in changed if symbol]):
                    return changes
    raise AssertionError


def is_balanced(brackets: list[str]) -> bool:
    open_labels: list[str] = []
    for bracket in brackets:
        if bracket.startswith("("):
            open_labels.append(bracket[1:])
        elif not open_labels or open_labels.pop() != bracket[1:]:
            return False
    return not open_labels


@given(brackets=st.lists(st.sampled_from(["(S", ")S", "(NP", ")NP"]), max_size=6))
def test_brackets_are_balanced_by_the_fewest_changes(brackets: list[str]) -> None:
    balanced = balance_brackets(brackets)
    assert is_balanced(balanced)
    # Two sequences differ by at least as many changes as their edit distance.
    assert edit_distance(brackets, balanced) == fewest_deletions_and_replacements(brackets)


def edit_distance(first: list[str], second: list[str]) -> int:
    distances = list(range(len(second) + 1))
    for row, left in enumerate(first, start=1):
        before, distances[0] = distances[0], row
        for column, right in enumerate(second, start=1):
            before, distances[column] = (
                distances[column],
                min(distances[column] + 1, distances[column - 1] + 1, before + (left != right)),
            )
    return distances[-1]


def test_a_flat_tree_has_all_words() -> None:
    assert format_tree(flat_tree(["a", "("])) == "(X (XX a) (-LRB- -LRB-))"


LINES = list(SYMBOLS.values())


def test_symbols_are_whole_tokens_and_unknown_ones_have_an_id(tmp_path: Path) -> None:
    vocabulary = SymbolVocabulary.of_counts(Counter(" ".join(LINES).split()))
    encoded = vocabulary.encode([*LINES, "(NEW NN"])
    assert vocabulary.decode(encoded)[: len(LINES)] == LINES
    assert [len(ids) for ids in encoded] == [len(line.split()) for line in [*LINES, "(NEW NN"]]
    assert encoded[-1] == [UNKNOWN, UNKNOWN]
    assert vocabulary.readable_subwords([encoded[0][0], 2]) == ["▁(S", "</s>"]
    with_dropout = vocabulary.encode_with_dropout(LINES, 0.9, np.zeros(len(LINES), np.uint64))
    assert [ids.tolist() for ids in with_dropout] == encoded[: len(LINES)]
    vocabulary.save(tmp_path / "tokenizer.json")
    loaded = load_vocabulary(tmp_path / "tokenizer.json")
    assert isinstance(loaded, SymbolVocabulary)
    assert loaded.as_json() == vocabulary.as_json()
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert [library.encode(line).ids for line in LINES] == encoded[: len(LINES)]


@pytest.mark.parametrize("old", ['"(S": 5', '"⟨s⟩": 1', "WhitespaceSplit", "⟨unknown⟩"])
def test_damaged_symbols_are_named(old: str) -> None:
    content = SymbolVocabulary.of_counts(Counter(" ".join(LINES).split())).as_json()
    assert old in content
    with pytest.raises(ValueError, match=r"tokenizer\.json holds no symbols between white space"):
        parse_vocabulary(content.replace(old, "damaged").encode(), place="tokenizer.json")
