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
    LengthBucket,
    OutputComparison,
    SentenceDifference,
    compare_systems,
    score_by_length,
    sentence_differences,
    sentence_scores,
)
from transduce.measure.word_matches import FrequencyBucket, NgramDifference, score_by_frequency

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
    "FrequencyBucket",
    "GoldTrees",
    "LengthBucket",
    "NgramDifference",
    "OutputComparison",
    "Score",
    "SentenceDifference",
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
    "score_by_frequency",
    "score_by_length",
    "scores",
    "sentence_differences",
    "sentence_scores",
    "words_of_bleu",
]
