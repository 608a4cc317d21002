"""The constraint of parsing: every hypothesis is a tree over exactly the words of its sentence."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState

__all__ = ["MIN_EXTRA_LENGTH", "TreeConstraint", "TreeRules"]

MAX_OPEN_RUN = 12
"""Phrases that may begin at one word without a word in between, which bounds chains of phrases with one part each.
The treebanks have 8 at most."""

MAX_DEPTH = 100
"""Phrases that may be open at once; the treebanks have 29 at most."""

MIN_EXTRA_LENGTH = 4
"""Symbols beyond its words that every sentence needs: a phrase around all words has two."""


class TreeRules(NamedTuple):
    """What each token of a vocabulary of trees does, and in which order a tree is written."""

    is_tag: Bool[Tensor, " vocabulary"]
    is_open: Bool[Tensor, " vocabulary"]
    is_close: Bool[Tensor, " vocabulary"]
    label: Int[Tensor, " vocabulary"]  # the number of the label of an opening or closing symbol, 0 for others
    in_order: bool  # whether the first part of a phrase stands before its opening symbol

    @classmethod
    def of(
        cls, symbols: Sequence[str], reserved: int, *, in_order: bool, device: torch.device | None = None
    ) -> "TreeRules":
        """Returns the rules for the symbols of all ids; the first `reserved` ids are neither labels nor tags."""
        kinds = ["" if token < reserved else symbol[0] for token, symbol in enumerate(symbols)]
        labels = {label: number for number, label in enumerate(sorted({symbol[1:] for symbol in symbols}), start=1)}
        return cls(
            torch.tensor([kind not in ("", "(", ")") for kind in kinds], device=device),
            torch.tensor([kind == "(" for kind in kinds], device=device),
            torch.tensor([kind == ")" for kind in kinds], device=device),
            torch.tensor(
                [labels[symbol[1:]] if kind in ("(", ")") else 0 for kind, symbol in zip(kinds, symbols, strict=True)],
                device=device,
            ),
            in_order,
        )


class TreeState(NamedTuple):
    """The inner state, and the unfinished tree of each row."""

    inner: StepperState
    labels: Int[Tensor, "rows depth"]  # of the open phrases, the outermost first
    depth: Int[Tensor, " rows"]  # number of open phrases
    words: Int[Tensor, " rows"]  # words without a part of speech so far
    budget: Int[Tensor, " rows"]  # tokens that may still be written, the end symbol counted
    open_run: Int[Tensor, " rows"]  # phrases opened since the last word, or since the last symbol that opened none
    is_begun: Bool[Tensor, " rows"]  # whether a symbol has been written
    is_complete: Bool[Tensor, " rows"]  # whether the last symbol ended a part: a tag or a closing symbol

    def pick(self, rows: Int[Tensor, " rows"]) -> "TreeState":
        """Returns the state of the chosen rows."""
        return TreeState(self.inner.pick(rows), *(part[rows] for part in self[1:]))


class TreeConstraint:
    """A stepper around a stepper: tokens that no tree over the words of the sentence continues with have −∞.

    `words` counts the words of each sentence, and `bounds` its tokens, the end symbol counted: a phrase is opened only
    while enough tokens are left to end the tree. The tokens that remain keep the log-probability of the model.
    """

    def __init__(
        self, inner: Stepper, rules: TreeRules, words: Int[Tensor, " batch"], bounds: Int[Tensor, " batch"], end: int
    ) -> None:
        self.inner, self.rules, self.words, self.bounds, self.end = inner, rules, words, bounds, end

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> TreeState:
        """Returns the state before the first token."""
        zeros, no = torch.zeros_like(self.words), torch.zeros_like(self.words, dtype=torch.bool)
        labels = zeros.new_zeros(len(zeros), min(max_length, MAX_DEPTH))
        inner = self.inner.start(source, visible, max_length)
        return TreeState(inner, labels, zeros, self.words, self.bounds + 1, zeros, no, no)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: TreeState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], TreeState]:
        """Returns the inner log-probabilities, −∞ where no tree continues so, and the state after `tokens`."""
        log_probabilities, inner = self.inner.step(tokens, state.inner)
        state = state._replace(inner=inner)
        for place in range(tokens.shape[1]):
            state = self._write(tokens[:, place], state)
            log_probabilities[:, place].masked_fill_(~self._allowed(state), -math.inf)
        return log_probabilities, state

    def _write(self, tokens: Int[Tensor, " rows"], state: TreeState) -> TreeState:
        """Returns the state after one token of each row; the begin symbol only uses up a token."""
        tag, opens, closes = (flags[tokens] for flags in self.rules[:3])
        place = state.depth.clamp(max=state.labels.shape[1] - 1).unsqueeze(1)
        label = torch.where(opens.unsqueeze(1), self.rules.label[tokens].unsqueeze(1), state.labels.gather(1, place))
        run_ends = tag if self.rules.in_order else tag | closes
        return state._replace(
            labels=state.labels.scatter(1, place, label),
            depth=state.depth + opens.long() - closes.long(),
            words=state.words - tag.long(),
            budget=state.budget - 1,
            open_run=(state.open_run + opens.long()).masked_fill(run_ends, 0),
            is_begun=state.is_begun | tag | opens,
            is_complete=tag | closes,
        )

    def _allowed(self, state: TreeState) -> Bool[Tensor, "rows vocabulary"]:
        """Returns which tokens may follow."""
        may_tag, may_open, may_close = (self._in_order if self.rules.in_order else self._brackets)(state)
        may_open &= (state.depth < state.labels.shape[1]) & self._fits(state, opened=1)
        may_close &= self._fits(state, opened=-1)
        innermost = state.labels.gather(1, (state.depth - 1).clamp(min=0).unsqueeze(1))
        allowed = may_tag.unsqueeze(1) & self.rules.is_tag
        allowed |= may_open.unsqueeze(1) & self.rules.is_open
        allowed |= may_close.unsqueeze(1) & self.rules.is_close & (innermost == self.rules.label)
        allowed[:, self.end] = (state.depth == 0) & state.is_begun & (state.words == 0)
        return allowed

    def _brackets(self, state: TreeState) -> tuple[Tensor, Tensor, Tensor]:
        """Returns whether a tag, an opening and a closing symbol may follow where phrases open before their parts."""
        is_inside, has_words = state.depth > 0, state.words > 0
        # Without a phrase, the tree is a single word.
        may_tag = has_words & (is_inside | (~state.is_begun & (state.words == 1)))
        may_open = has_words & (is_inside | ~state.is_begun) & (state.open_run < MAX_OPEN_RUN)
        return may_tag, may_open, state.is_complete & ((state.depth > 1) | (is_inside & ~has_words))

    def _in_order(self, state: TreeState) -> tuple[Tensor, Tensor, Tensor]:
        """Returns whether a tag, an opening and a closing symbol may follow where phrases open after a part."""
        is_inside, has_words = state.depth > 0, state.words > 0
        may_open = state.is_complete & (state.open_run < MAX_OPEN_RUN)
        # Outside of all phrases, only a new phrase can take further words, so that one more must be possible.
        may_close = is_inside & ((state.depth > 1) | ~has_words | (state.open_run < MAX_OPEN_RUN))
        return has_words & (is_inside | ~state.is_begun), may_open, may_close

    def _fits(self, state: TreeState, *, opened: int) -> Bool[Tensor, " rows"]:
        """Returns whether the tree can be ended in time after a symbol that changes the depth by `opened`."""
        depth = state.depth + opened
        needed = state.words + depth + 1  # a tag a word, a closing symbol a phrase, and the end symbol
        if self.rules.in_order:
            needed = needed + 2 * ((depth == 0) & (state.words > 0)).long()  # a phrase for the other words
        return state.budget - 1 >= needed
