"""The search of a parser: what it writes is a tree over the words of the sentence."""

from collections.abc import Sequence

import torch

from transduce.search import SearchProblem, Stepper, TreeConstraint, TreeRules
from transduce.text.linearisation import InOrder, TopDown
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.tree_symbols import UNKNOWN, TreeSymbols

__all__ = ["TreeSearch"]


class TreeSearch:
    """Constrains searches of parsers, whose target side has the symbols of trees."""

    def __init__(self, linearisation: TopDown | InOrder, target: TokenVocabulary, device: torch.device) -> None:
        """Raises ValueError where the target side has no symbols of trees."""
        if not isinstance(target, TreeSymbols):
            raise ValueError("the model has a linearisation of trees, but its target vocabulary has subwords")
        in_order = isinstance(linearisation, InOrder)
        self.rules = TreeRules.of(target.symbols, UNKNOWN + 1, in_order=in_order, device=device)

    def constrain(self, stepper: Stepper, words: Sequence[int], problem: SearchProblem) -> TreeConstraint:
        """Returns a stepper whose hypotheses are trees over as many words as `words` counts for each sentence."""
        counts = torch.tensor(words, device=problem.bounds.device)
        return TreeConstraint(stepper, self.rules, counts, problem.bounds, problem.end)
