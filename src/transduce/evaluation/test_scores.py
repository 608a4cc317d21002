"""Scores of a model on a test set: the translations and their metrics, or the trees and their brackets.

`transduce evaluate` prints them; a fine-tuning reports them from before and after.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from transduce.corpus.checks import name_of
from transduce.corpus.entries import CorpusSpec, EmbeddedTrees, ParallelCorpus, Trees
from transduce.corpus.parallel_text import ParallelText, read_parallel_text
from transduce.corpus.readers import read_gold_treebank
from transduce.evaluation.validation import ValidationScore
from transduce.measure.bracket_scores import BracketScore, bracket_scores
from transduce.measure.scores import Score, scores
from transduce.model_directory.config import Config
from transduce.text.directions import Direction
from transduce.text.trees import Tree, words_of
from transduce.translation.parser import Parser
from transduce.translation.search_method import SearchMethod, search_method
from transduce.translation.source_request import SourceRequest
from transduce.translation.translator import Translator

GoldPairs = Sequence[tuple[Tree, Tree | None]]
"""Trees as they are written, each with the cleaned tree; None where no word is left."""


class TranslatedTest(NamedTuple):
    """The translations of a test set, their tokens, the seconds of translating, and the scores by metric."""

    lines: list[str]
    tokens: int
    seconds: float
    scores: dict[str, Score]


class ParsedTest(NamedTuple):
    """The trees of a test set, their symbols, the seconds of parsing, the score, and how many outputs were no trees."""

    lines: list[str]
    tokens: int
    seconds: float
    score: BracketScore
    repaired: int


def request_for_corpus(config: Config, corpus: CorpusSpec) -> SourceRequest:
    """Returns the request for a corpus that names its languages; of a model with one direction only the tag."""
    if not isinstance(corpus, ParallelCorpus) or not config.directions:
        return SourceRequest(tag=corpus.tag)
    source, target = corpus.languages_or(Direction(None, None))
    return SourceRequest(target, source, corpus.tag)


def translate_test(
    corpus: ParallelText,
    metrics: Sequence[str],
    language: str | None,
    bootstrap: int | None,
    translator: Translator,
    method: SearchMethod,
) -> TranslatedTest:
    """Translates the source and measures the translations; `language` is that of the target."""
    began = time.perf_counter()
    translations = [best[0] for best in translator.translate_lines(corpus.source, method)]
    seconds = time.perf_counter() - began
    lines, tokens = [best.text for best in translations], sum(len(best.tokens) + 1 for best in translations)
    results = scores(lines, [corpus.target], metrics, language=language, bootstrap=bootstrap)
    return TranslatedTest(lines, tokens, seconds, results)


def parse_test(gold: GoldPairs, bootstrap: int | None, translator: Translator, method: SearchMethod) -> ParsedTest:
    """Parses the words of gold trees and measures the trees; a gold tree without words is not measured."""
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
    """Reads and cleans the gold trees of a corpus, `name` in messages; raises ValueError where it has none."""
    if not isinstance(spec, Trees | EmbeddedTrees):
        raise ValueError(f"{name} names a corpus without trees: name one of trees, or give --reference TREES")
    gold = read_gold_treebank(spec)
    if not any(cleaned for _, cleaned in gold):
        raise ValueError(f"{name_of(spec)}: there is no tree to parse the words of")
    return gold


def score_test(
    spec: CorpusSpec, name: str, translator: Translator, language: str | None, bootstrap: int
) -> ValidationScore:
    """Returns the BLEU of a model's translations of a test set, or the F1 of its trees, with confidence intervals."""
    method = search_method(translator.decoding)
    if translator.linearisation is None:
        corpus = read_parallel_text(spec)
        bleu = translate_test(corpus, ["bleu"], language, bootstrap, translator, method).scores["bleu"]
        return ValidationScore("bleu", bleu.score, bleu.signature, bleu.low, bleu.high)
    f1 = parse_test(read_gold_trees_of(spec, name), bootstrap, translator, method).score
    return ValidationScore("f1", f1.f1, f1.signature, f1.low, f1.high)
