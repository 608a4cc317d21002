"""Computes the F1 of a parser at each validation during training, and on a test set."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec, EmbeddedTrees, Trees
from transduce.corpus.pair_checks import name_of
from transduce.corpus.readers import ParallelText
from transduce.evaluation.validation import ValidationScore
from transduce.parsing.bracket_scores import BracketScore, bracket_scores
from transduce.parsing.parser import Parser
from transduce.parsing.tree_symbols import tree_of
from transduce.parsing.treebank_reader import read_gold_treebank
from transduce.parsing.trees import Tree, words_of
from transduce.text.tree_linearisation import InOrder, TopDown
from transduce.translation.search_method import SearchMethod, search_method
from transduce.translation.translator import Translator

GoldPairs = Sequence[tuple[Tree, Tree | None]]
"""Trees as they are in the treebank, each with its cleaned tree, or with None if no word is left after cleaning."""


class ParsedTest(NamedTuple):
    """The parses of a test set, and their score.

    `lines` are the trees in brackets, `tokens` is the number of symbols that the model generated, `seconds` is the time
    that parsing took, and `repaired` is the number of outputs that were not trees.
    """

    lines: list[str]
    tokens: int
    seconds: float
    score: BracketScore
    repaired: int


def parse_test(gold: GoldPairs, bootstrap: int | None, translator: Translator, method: SearchMethod) -> ParsedTest:
    """Parses the sentences of gold trees, and scores the parses. Gold trees without words are not scored."""
    parser = Parser(translator)
    sentences = [[] if cleaned is None else words_of(cleaned) for _, cleaned in gold]
    began = time.perf_counter()
    best = parser.parse(sentences, method)
    seconds = time.perf_counter() - began
    parses = [trees[0] for trees in best if trees]
    lines, tokens = [str(trees[0]) if trees else "" for trees in best], sum(parse.tokens for parse in parses)
    measured = [tree for tree, cleaned in gold if cleaned is not None]
    score = bracket_scores(measured, [parse.tree for parse in parses], bootstrap=bootstrap)
    return ParsedTest(lines, tokens, seconds, score, sum(parse.fault is not None for parse in parses))


def read_gold_trees_of(spec: CorpusSpec, name: str) -> list[tuple[Tree, Tree | None]]:
    """Reads and cleans the gold trees of a corpus, which error messages call `name`.

    Raises ValueError if the corpus does not consist of trees, or if no tree has words.
    """
    if not isinstance(spec, Trees | EmbeddedTrees):
        raise ValueError(f"{name} names a corpus without trees: name one of trees, or give --reference TREES")
    gold = read_gold_treebank(spec)
    if not any(cleaned for _, cleaned in gold):
        raise ValueError(f"{name_of(spec)}: there is no tree to parse the words of")
    return gold


def f1_of_test(spec: CorpusSpec, name: str, translator: Translator, bootstrap: int) -> ValidationScore:
    """Computes the F1 of a parser on a test set, with its confidence interval."""
    gold = read_gold_trees_of(spec, name)
    f1 = parse_test(gold, bootstrap, translator, search_method(translator.decoding)).score
    return ValidationScore("f1", f1.f1, f1.signature, f1.low, f1.high)


def f1_of_symbols(
    linearisation: TopDown | InOrder, corpus: ParallelText, outputs: Sequence[str], bootstrap: int | None
) -> ValidationScore:
    """Computes the F1 of linearised output trees against the reference trees of a corpus.

    The corpus pairs the words of each sentence with the symbols of its tree.
    """
    gold, output = (read_trees_of(linearisation, lines, corpus.source) for lines in (corpus.target, outputs))
    f1 = bracket_scores(gold, output, bootstrap=bootstrap)
    # The corpus contains cleaned trees, which lack brackets that `transduce evaluate` counts.
    return ValidationScore("f1", f1.f1, f"{f1.signature}|gold:cleaned", f1.low, f1.high)


def read_trees_of(linearisation: TopDown | InOrder, symbols: Sequence[str], words: Sequence[str]) -> list[Tree]:
    """Builds a tree from each line of symbols and the corresponding line of words.

    Raises ValueError if the symbols of a line do not form a tree over the words.
    """
    return [tree_of(line.split(), over.split(" "), linearisation) for line, over in zip(symbols, words, strict=True)]
