"""Search for the best translation (section 6.1), over nothing but a stepper: beam, greedy, sampling, forced scoring."""

from transduce.search.beam import Decoding, Hypothesis, beam_search, length_penalty
from transduce.search.ensemble import Ensemble
from transduce.search.forced import forced_scores
from transduce.search.prefixed import ForcedPrefix
from transduce.search.single import Sampling, greedy_search, sample
from transduce.search.stepper import SearchProblem, Stepper, StepperState, pad_rows

__all__ = [
    "Decoding",
    "Ensemble",
    "ForcedPrefix",
    "Hypothesis",
    "Sampling",
    "SearchProblem",
    "Stepper",
    "StepperState",
    "beam_search",
    "forced_scores",
    "greedy_search",
    "length_penalty",
    "pad_rows",
    "sample",
]
