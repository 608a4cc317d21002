"""Search for translations over any stepper: beam search (section 6.1), greedy search, sampling, forced scoring, and
the constraint of parsers."""

from transduce.search.beam import Decoding, Hypothesis, beam_search, length_penalty
from transduce.search.cancellation import SearchStoppedError, StopCheck, StoppableStepper, stop_after
from transduce.search.greedy_and_sampling import Sampling, greedy_search, sample
from transduce.search.stepper import SearchProblem, Stepper, StepperState, forced_scores, pad_rows
from transduce.search.tree_constraint import MIN_EXTRA_LENGTH, TreeConstraint, TreeRules
from transduce.search.wrapped_steppers import Ensemble, ForcedPrefix, NoRepeatedNgrams

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
