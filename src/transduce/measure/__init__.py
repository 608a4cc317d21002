"""Scores of texts and trees by the field's metrics, and tests of significance; needs no torch."""

from transduce.measure.bracket_files import GoldTrees, read_gold_trees, read_output_trees
from transduce.measure.bracket_parameters import COLLINS, BracketParameters, parse_parameters
from transduce.measure.bracket_scores import (
    BracketComparison,
    BracketDifference,
    BracketScore,
    BracketTotals,
    bracket_scores,
    compare_brackets,
)
from transduce.measure.brackets import BracketCounts, BracketStatus, count_sentences
from transduce.measure.comet import COMET_MODELS, Comet, compare_by_comet, load_comet
from transduce.measure.metrics import METRICS, metric_named, words_of_bleu
from transduce.measure.scores import Comparison, Difference, Score, compare, scores
from transduce.measure.system_comparison import (
    NgramDifference,
    OutputComparison,
    SentenceDifference,
    SystemScores,
    compare_systems,
    score_systems,
    sentence_differences,
)

__all__ = [
    "COLLINS",
    "COMET_MODELS",
    "METRICS",
    "BracketComparison",
    "BracketCounts",
    "BracketDifference",
    "BracketParameters",
    "BracketScore",
    "BracketStatus",
    "BracketTotals",
    "Comet",
    "Comparison",
    "Difference",
    "GoldTrees",
    "NgramDifference",
    "OutputComparison",
    "Score",
    "SentenceDifference",
    "SystemScores",
    "bracket_scores",
    "compare",
    "compare_brackets",
    "compare_by_comet",
    "compare_systems",
    "count_sentences",
    "load_comet",
    "metric_named",
    "parse_parameters",
    "read_gold_trees",
    "read_output_trees",
    "score_systems",
    "scores",
    "sentence_differences",
    "words_of_bleu",
]
