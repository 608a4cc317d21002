"""The baseline of parsing, `benchmarks/parsing`: folds, rules, CKY against a slow one, brackets, the command line."""

import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from transduce.parsing.bracket_scores import bracket_scores
from transduce.parsing.trees import Tree, format_tree, parse_tree, preterminals, read_trees

PARSING = Path(__file__).parents[1] / "benchmarks" / "parsing"
DATA = os.environ.get("TRANSDUCE_DATA")
TREEBANK = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NP (DT the) (NN cat)) (PP (IN with) (NP (DT a) (NN hat))))) (. .))",
    "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT the) (NN cat)) (PP (IN with) (NP (NNS glasses)))) (. .))",
    "(S (NP (PRP it)) (VP (VBZ sleeps)) (. .))",
    "(S (VP (VB see) (NP (DT a) (JJ big) (JJ old) (NN dog))))",
    "(NP (S (VP (VBG seeing) (NP (NNS cats)))))",
    "(S (NP (NNS cats)))",
    "(FRAG (S (NP (NN sleep))) (. .))",
]
SENTENCES = [
    "the cat sees a dog with the hat .",
    "it sees the old cat with a hat with glasses .",
    "seeing",
    "cats sleeps",
    "Zebras of 1984 sees -LRB- the well-known dog with it",
]


@pytest.fixture(autouse=True)
def parsing_is_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(PARSING))


def treebank() -> list[Tree]:
    return [parse_tree(text) for text in TREEBANK]


def words_in(tree: Tree) -> list[str]:
    return [tag.children[0] for tag in preterminals(tree)]


def slow_score(words: list[str], trees: list[Tree], markovisation, tags) -> float:
    """The log-probability of the best tree: every rule on every span, unary rules until nothing changes."""
    from pcfg import ROOT, rules_of

    counts = Counter(rule for tree in trees for rule in rules_of(Tree("", (tree,)), "", markovisation))
    totals = Counter()
    for (parent, _), count in counts.items():
        totals[parent] += count
    best = {}
    for width in range(1, len(words) + 1):
        for begin in range(len(words) - width + 1):
            end = begin + width
            cell = best[begin, end] = {}
            if width == 1:
                cell.update(zip(tags.tags, np.log(tags.of(words[begin], begin == 0)[1])))
            changed = True
            while changed:
                changed = False
                for (parent, parts), count in counts.items():
                    if len(parts) == 1:
                        score = cell.get(parts[0], -math.inf)
                    else:
                        score = max(
                            (
                                best[begin, middle].get(parts[0], -math.inf)
                                + best[middle, end].get(parts[1], -math.inf)
                                for middle in range(begin + 1, end)
                            ),
                            default=-math.inf,
                        )
                    score += math.log(count / totals[parent])
                    if score > cell.get(parent, -math.inf) + 1e-9:
                        cell[parent] = score
                        changed = True
    return best[0, len(words)].get(ROOT, -math.inf)


def test_folds_are_whole_files_in_the_order_of_names():
    from folds import folds, train_and_test

    files = [Path(name) for name in ("b/3.mrg", "a/5.mrg", "c/1.mrg", "a/2.mrg", "d/4.mrg")]
    names = [[file.name for file in fold] for fold in folds(files, 2)]
    assert names == [["1.mrg", "3.mrg", "5.mrg"], ["2.mrg", "4.mrg"]]
    for training, test in train_and_test(files, 3):
        assert sorted(training + test) == sorted(files)
        assert not set(training) & set(test)
    for count in (1, 6):
        with pytest.raises(ValueError, match=f"{count} folds of 5 files"):
            folds(files, count)
    with pytest.raises(ValueError, match="named twice"):
        folds([*files, files[0]], 2)


def test_rules_remember_the_parent_and_the_last_parts():
    from pcfg import GrammarSymbol, Markovisation, rules_of

    tree = parse_tree("(S (NP (DT a) (JJ b) (JJ c) (NN d)) (VP (VBZ e)))")
    rules = list(rules_of(tree, "", Markovisation(horizontal=1)))
    rest = [GrammarSymbol("NP", "S", ("DT",)), GrammarSymbol("NP", "S", ("JJ",))]
    assert rules == [
        (GrammarSymbol("S"), (GrammarSymbol("NP", "S"), GrammarSymbol("VP", "S"))),
        (GrammarSymbol("NP", "S"), (GrammarSymbol("DT", "NP"), rest[0])),
        (rest[0], (GrammarSymbol("JJ", "NP"), rest[1])),
        (rest[1], (GrammarSymbol("JJ", "NP"), GrammarSymbol("NN", "NP"))),
        (GrammarSymbol("VP", "S"), (GrammarSymbol("VBZ", "VP"),)),
    ]
    forgetful = list(rules_of(tree, "", Markovisation(vertical=1, horizontal=0)))
    assert forgetful[2][0] == forgetful[3][0] == GrammarSymbol("NP", "", ())


def test_rare_symbols_forget_earlier_parts_before_the_parent():
    from pcfg import GrammarSymbol, Markovisation, shorten_rare

    often, seldom = GrammarSymbol("NP", "S", ("DT", "JJ")), GrammarSymbol("NP", "S", ("CD", "JJ"))
    alone = GrammarSymbol("X", "Y", ("Z",))
    shortened = shorten_rare({often: 9, seldom: 1, alone: 1}, Markovisation(rare=5))
    assert shortened == {often: often, seldom: seldom.plain._replace(parent=""), alone: alone.plain}
    assert shorten_rare({seldom: 4, seldom._replace(before=("DT", "JJ")): 4}, Markovisation(rare=5)) == {
        seldom: GrammarSymbol("NP", "S", ("JJ",)),
        often: GrammarSymbol("NP", "S", ("JJ",)),
    }


@pytest.mark.parametrize(("vertical", "horizontal"), [(2, 2), (1, 0)])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_best_score_is_that_of_a_slow_parser_and_of_the_tree_itself(vertical, horizontal, sentence):
    from pcfg import Markovisation, Pcfg

    markovisation = Markovisation(vertical, horizontal, rare=0)
    parser = Pcfg(treebank(), markovisation)
    words = sentence.split()
    parsed = parser.parse(words, thresholds=(0.0,))
    assert words_in(parsed.tree) == words
    assert parsed.score == pytest.approx(slow_score(words, treebank(), markovisation, parser.tags), abs=1e-3)
    assert parser.parse(words).score <= parsed.score + 1e-3


@pytest.mark.parametrize("text", TREEBANK)
def test_a_tree_that_was_learnt_alone_comes_back(text):
    from pcfg import Markovisation, Pcfg

    tree = parse_tree(text)
    assert Pcfg([tree], Markovisation(rare=0)).parse(words_in(tree)).tree == tree


def plain_probabilities(parser, words: list[str]) -> np.ndarray:
    """What the coarse pass starts from: P(word | tag) up to a factor of the word."""
    numbers = [parser.coarse.rules.symbols.index(tag) for tag in parser.tags.plain_tags]
    plain = np.zeros((len(words), len(parser.coarse.rules.symbols)))
    for position, word in enumerate(words):
        plain[position, numbers] = parser.tags.of(word, position == 0)[0]
    return plain


def test_the_coarse_pass_expects_the_nodes_of_the_only_tree():
    from pcfg import Pcfg

    parser = Pcfg([parse_tree("(S (NP (PRP it)) (VP (VBZ sleeps)) (. .))")])
    expected = parser.coarse.expected_counts(plain_probabilities(parser, ["it", "sleeps", "."]))
    spans = {
        (symbol.label, symbol.before, int(begin), int(end)): expected[begin, end, number]
        for number, symbol in enumerate(parser.coarse.rules.symbols)
        for begin, end in zip(*np.nonzero(expected[..., number]))
    }
    nodes = ["PRP 0 1", "NP 0 1", "VBZ 1 2", "VP 1 2", ". 2 3", "S 0 3"]
    keys = {(label, None, int(begin), int(end)) for label, begin, end in map(str.split, nodes)}
    assert spans == pytest.approx(dict.fromkeys({*keys, ("", None, 0, 3), ("S", (), 1, 3)}, 1))


def test_the_coarse_pass_expects_one_tag_for_each_word_of_long_sentences_too():
    from pcfg import Markovisation, Pcfg

    parser = Pcfg(treebank(), Markovisation(1, 0, rare=0))
    words = SENTENCES[1].split() + SENTENCES[0].split() * 12
    tags = [parser.coarse.rules.symbols.index(tag) for tag in parser.tags.plain_tags]
    for factor in (1e-5, 1e5):  # products of 107 words leave the range of float64
        expected = parser.coarse.expected_counts(plain_probabilities(parser, words) * factor)
        first = np.arange(len(words))
        np.testing.assert_allclose(expected[first, first + 1][:, tags].sum(1), 1, rtol=1e-6)
        assert expected[0, len(words), parser.coarse.root] == pytest.approx(1)


def test_unary_cycles_end():
    from pcfg import Markovisation, Pcfg

    trees = [parse_tree("(S (NP (S (N a))))"), parse_tree("(NP (S (NP (N a))))"), parse_tree("(S (N b))")]
    markovisation = Markovisation(vertical=1, rare=0)
    parsed = Pcfg(trees, markovisation).parse(["a"], thresholds=(0.0,))
    assert words_in(parsed.tree) == ["a"]
    assert format_tree(parsed.tree).count("(") <= 3
    chance = parsed.score
    assert chance == pytest.approx(slow_score(["a"], trees, markovisation, Pcfg(trees, markovisation).tags), abs=1e-5)


def test_without_a_parse_the_tree_is_flat():
    from pcfg import Pcfg

    # Of "b" tag B is likelier, though A is rarer and so explains it better.
    trees = [parse_tree(text) for text in ("(S (A a) (B b))", "(S (A b) (B b))", *["(S (B c) (B c))"] * 10)]
    parsed = Pcfg(trees).parse(["b", "(", "a"])
    assert parsed.score == -math.inf
    assert parsed.tree.label == "S"
    assert [tag.children for tag in parsed.tree.children] == [("b",), ("(",), ("a",)]
    assert [parsed.tree.children[0].label, parsed.tree.children[2].label] == ["B", "A"]
    with pytest.raises(ValueError, match="no word"):
        Pcfg(treebank()).parse([])
    with pytest.raises(ValueError, match="no trees"):
        Pcfg([])


def test_a_pruned_symbol_stands_nowhere():
    from pcfg import Markovisation, Pcfg

    parser = Pcfg(treebank(), Markovisation(rare=0))
    words = SENTENCES[0].split()
    kept = np.ones((len(words) + 1, len(words) + 1, len(parser.coarse.rules.symbols)), dtype=bool)
    kept &= np.triu(np.ones(kept.shape[:2], dtype=bool), 1)[..., None]
    tags = np.zeros((len(words), len(parser.fine.symbols)), dtype=np.float32)
    labels = np.array([symbol.label for symbol in parser.fine.symbols])
    for label in ("VP", "S"):  # has two parts; has one or two
        some = kept.copy()
        some[..., [symbol.label == label for symbol in parser.coarse.rules.symbols]] = False
        assert (parser.fine.fill_chart(tags, some).top[1:, labels == label] == -np.inf).all()
        assert (parser.fine.fill_chart(tags, kept).top[1:, labels == label] > -np.inf).any()


def test_classes_of_words_go_from_general_to_special():
    from pcfg import word_classes

    assert word_classes("Born", True) == ["", "first", "first …n", "first …rn", "first …orn"]
    assert word_classes("IBM-3", False) == ["", "capitals digits and letters hyphen"]
    assert word_classes("mRNA", True)[1] == "inner capital"
    assert word_classes("1,984", False) == ["", " digits"]


def test_unknown_words_get_the_tag_of_their_ending():
    from pcfg import GrammarSymbol, TaggedWord, TagProbabilities

    seen = [("walked", "VBD"), ("talked", "VBD"), ("Rome", "NNP"), ("1984", "CD"), ("quickly", "RB"), ("the", "DT")]
    seen += [("the", "DT")] * 5
    tags = TagProbabilities([TaggedWord(GrammarSymbol(tag, "X"), word, False) for word, tag in seen])
    prior = tags.plain_prior
    for word, tag in (("jumped", "VBD"), ("Paris", "NNP"), ("77", "CD"), ("sadly", "RB"), ("the", "DT")):
        plain, fine = tags.of(word, False)
        assert tags.plain_tags[int((plain * prior).argmax())].label == tag
        assert (plain * prior).sum() == pytest.approx(1)
        assert (fine * tags.prior).sum() == pytest.approx(1)
    assert (tags.of("The", True)[0] == tags.of("the", True)[0]).all()


def test_the_command_prints_scores_of_folds_and_writes_a_tree_a_line(tmp_path):
    files = [tmp_path / f"{number}.mrg" for number in range(3)]
    for number, file in enumerate(files):
        file.write_text("\n".join(f"( {text} )" for text in TREEBANK[number:]), "utf-8")
    command = [sys.executable, str(PARSING / "pcfg.py"), "--train", *map(str, files), "--folds", "3"]
    output = subprocess.run(
        [*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, check=True
    ).stdout
    assert "sentences a second" in output
    (everything,) = [line.split() for line in output.split("\n") if line.startswith("all")]
    assert int(everything[1]) == 7 + 6 + 5
    trees = [tree for _, tree in read_trees((tmp_path / "out").read_text("utf-8").split("\n"), "out")]
    gold = [parse_tree(text) for number in range(3) for text in TREEBANK[number:]]
    assert [words_in(tree) for tree in trees] == [words_in(tree) for tree in gold]
    failed = subprocess.run(command[:-2], capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert "--folds N" in failed.stderr


@pytest.mark.skipif(not DATA, reason="TRANSDUCE_DATA is not set")
def test_a_few_files_of_the_wall_street_journal():
    from folds import read_cleaned
    from pcfg import Markovisation, Pcfg

    folder = Path(DATA) / "ptb-sample"
    if not folder.exists():
        pytest.skip(f"{folder} does not exist")
    training = read_cleaned(folder / f"wsj_{number:04}.mrg" for number in range(1, 40))
    gold = [tree for tree in read_cleaned([folder / "wsj_0043.mrg"]) if len(preterminals(tree)) <= 25][:12]
    scores = []
    for markovisation in (Markovisation(), Markovisation(1, 0, 0)):
        parser = Pcfg(training, markovisation)
        scores.append(bracket_scores(gold, [parser.parse(words_in(tree)).tree for tree in gold]).f1)
    assert scores[0] > 60
    assert scores[0] > scores[1]
