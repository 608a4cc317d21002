"""Search for translations over any stepper: beam search (section 6.1), greedy search, sampling, forced scoring, and
the constraint of parsers."""

from transduce.search.beam import Decoding, Hypothesis, beam_search, length_penalty
from transduce.search.ensemble import Ensemble
from transduce.search.forced_prefix import ForcedPrefix
from transduce.search.forced_scoring import forced_scores
from transduce.search.greedy_and_sampling import Sampling, greedy_search, sample
from transduce.search.repeated_ngrams import NoRepeatedNgrams
from transduce.search.stepper import SearchProblem, Stepper, StepperState, pad_rows
from transduce.search.stop_check import SearchStoppedError, StopCheck, StoppableStepper, stop_after
from transduce.search.tree_constraint import MIN_EXTRA_LENGTH, TreeConstraint, TreeRules

__all__ = [
    "MIN_EXTRA_LENGTH",
    "Decoding",
    "Ensemble",
    "ForcedPrefix",
    "Hypothesis",
    "NoRepeatedNgrams",
    "Sampling",
    "SearchProblem",
    "SearchStoppedError",
    "Stepper",
    "StepperState",
    "StopCheck",
    "StoppableStepper",
    "TreeConstraint",
    "TreeRules",
    "beam_search",
    "forced_scores",
    "greedy_search",
    "length_penalty",
    "pad_rows",
    "sample",
    "stop_after",
]
