"""The constraint of parsing: every hypothesis is a tree over exactly the words of its sentence."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.parsing.tree_symbols import closes_phrase, opens_phrase
from transduce.search.stepper import Stepper, StepperState
from transduce.text.symbol_vocabulary import UNKNOWN, SymbolVocabulary
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.tree_linearisation import InOrder, TopDown

MAX_OPEN_RUN = 12
"""Most phrases that may open in a row at one word, which limits unary chains; at most 8 in the treebanks."""

MAX_OPEN_PHRASES = 100
"""Largest number of phrases that may be open at the same time; at most 29 in the treebanks."""


def constraint_of(
    linearisation: TopDown | InOrder, source: TokenVocabulary, target: TokenVocabulary, device: torch.device
) -> Callable[[Stepper, Sequence[Sequence[int]], Int[Tensor, " batch"], int], Stepper]:
    """Returns a function that constrains a stepper, given the source tokens, the bounds and the end symbol.

    Raises ValueError if the target vocabulary does not have tree symbols.
    """
    if not isinstance(target, SymbolVocabulary):
        raise ValueError("the model has a linearisation of trees, but its target vocabulary has subwords")
    in_order = isinstance(linearisation, InOrder)
    rules = TreeRules.of(target.symbols, UNKNOWN + 1, in_order=in_order, device=device)

    def constrain(
        stepper: Stepper, sources: Sequence[Sequence[int]], bounds: Int[Tensor, " batch"], end: int
    ) -> TreeConstraint:
        words = [len(text.split(" ")) for text in source.decode(sources)]
        return TreeConstraint(stepper, rules, torch.tensor(words, device=device), bounds, end)

    return constrain


class TreeRules(NamedTuple):
    """What each token of a vocabulary of trees does, and in which order a tree is written."""

    is_tag: Bool[Tensor, " vocabulary"]
    is_open: Bool[Tensor, " vocabulary"]
    is_close: Bool[Tensor, " vocabulary"]
    label: Int[Tensor, " vocabulary"]  # the number of the label of an opening or closing symbol, 0 for others
    in_order: bool  # whether the first part of a phrase comes before its opening symbol

    @classmethod
    def of(
        cls, symbols: Sequence[str], first_symbol_id: int, *, in_order: bool, device: torch.device | None = None
    ) -> "TreeRules":
        """The rules for the symbols of all ids; ids below `first_symbol_id` are neither labels nor tags."""
        names = [symbol if token >= first_symbol_id else "" for token, symbol in enumerate(symbols)]
        opens, closes = list(map(opens_phrase, names)), list(map(closes_phrase, names))
        tags = [bool(symbol) and not (opens[n] or closes[n]) for n, symbol in enumerate(names)]
        labels = [symbol[1:] if opens[n] or closes[n] else "" for n, symbol in enumerate(names)]
        numbers = {label: number for number, label in enumerate(sorted({"", *labels}))}
        is_tag, is_open, is_close = (torch.tensor(kind, device=device) for kind in (tags, opens, closes))
        label = torch.tensor([numbers[label] for label in labels], device=device)
        return cls(is_tag, is_open, is_close, label, in_order)


class TreeState(NamedTuple):
    """The inner state, and the unfinished tree of each row."""

    inner: StepperState
    labels: Int[Tensor, "rows depth"]  # of the open phrases, the outermost first
    depth: Int[Tensor, " rows"]  # number of open phrases
    remaining_words: Int[Tensor, " rows"]  # words that have no part of speech yet
    budget: Int[Tensor, " rows"]  # tokens that may still be written, including the end symbol
    phrases_opened_here: Int[Tensor, " rows"]  # since the last word or, top down, the last closing symbol
    is_begun: Bool[Tensor, " rows"]  # whether a symbol has been written
    last_ended_part: Bool[Tensor, " rows"]  # whether the last symbol ended a part: a tag or a closing symbol

    def pick(self, rows: Int[Tensor, " rows"]) -> "TreeState":
        """Selects rows of the state."""
        return TreeState(self.inner.pick(rows), *(part[rows] for part in self[1:]))


class TreeConstraint:
    """Wraps a stepper, and gives −∞ to tokens after which the hypothesis can no longer become a tree over the
    sentence's words.

    `word_counts` holds the number of words of each sentence, and `bounds` its number of tokens, including the end
    symbol: a phrase opens only while enough tokens are left to end the tree. Allowed tokens keep the model's
    log-probability.
    """

    def __init__(
        self,
        inner: Stepper,
        rules: TreeRules,
        word_counts: Int[Tensor, " batch"],
        bounds: Int[Tensor, " batch"],
        end: int,
    ) -> None:
        self.inner, self.rules, self.word_counts, self.bounds, self.end = inner, rules, word_counts, bounds, end

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> TreeState:
        """The state before the first token."""
        zeros, no = torch.zeros_like(self.word_counts), torch.zeros_like(self.word_counts, dtype=torch.bool)
        labels = zeros.new_zeros(len(zeros), min(max_length, MAX_OPEN_PHRASES))
        inner = self.inner.start(source, visible, max_length)
        return TreeState(inner, labels, zeros, self.word_counts, self.bounds + 1, zeros, no, no)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: TreeState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], TreeState]:
        """Returns the inner log-probabilities, −∞ for tokens that are not allowed, and the state after `tokens`."""
        log_probabilities, inner = self.inner.step(tokens, state.inner)
        state = state._replace(inner=inner)
        for index in range(tokens.shape[1]):
            state = self._write(tokens[:, index], state)
            log_probabilities[:, index].masked_fill_(~self._allowed(state), -math.inf)
        return log_probabilities, state

    def _write(self, tokens: Int[Tensor, " rows"], state: TreeState) -> TreeState:
        """The state after one token of each row; the begin symbol only uses up a token of the budget."""
        tag, opens, closes = (flags[tokens] for flags in self.rules[:3])
        level = state.depth.clamp(max=state.labels.shape[1] - 1).unsqueeze(1)
        label = torch.where(opens.unsqueeze(1), self.rules.label[tokens].unsqueeze(1), state.labels.gather(1, level))
        run_ends = tag if self.rules.in_order else tag | closes
        return state._replace(
            labels=state.labels.scatter(1, level, label),
            # On a GPU, a search also steps rows whose hypothesis is dead, with arbitrary tokens.
            depth=(state.depth + opens.long() - closes.long()).clamp(0, state.labels.shape[1]),
            remaining_words=state.remaining_words - tag.long(),
            budget=state.budget - 1,
            phrases_opened_here=(state.phrases_opened_here + opens.long()).masked_fill(run_ends, 0),
            is_begun=state.is_begun | tag | opens,
            last_ended_part=tag | closes,
        )

    def _allowed(self, state: TreeState) -> Bool[Tensor, "rows vocabulary"]:
        """Which tokens may follow in each row."""
        may_tag, may_open, may_close = (self._in_order if self.rules.in_order else self._top_down)(state)
        may_open &= (state.depth < state.labels.shape[1]) & self._fits(state, opened=1)
        may_close &= self._fits(state, opened=-1)
        innermost = state.labels.gather(1, (state.depth - 1).clamp(min=0).unsqueeze(1))
        allowed = may_tag.unsqueeze(1) & self.rules.is_tag
        allowed |= may_open.unsqueeze(1) & self.rules.is_open
        allowed |= may_close.unsqueeze(1) & self.rules.is_close & (innermost == self.rules.label)
        allowed[:, self.end] = (state.depth == 0) & state.is_begun & (state.remaining_words == 0)
        return allowed

    def _top_down(self, state: TreeState) -> tuple[Tensor, Tensor, Tensor]:
        """Whether a tag, an opening and a closing symbol may follow, if phrases open before their parts."""
        is_inside, has_words = state.depth > 0, state.remaining_words > 0
        # A tree without a phrase is a single word.
        may_tag = has_words & (is_inside | (~state.is_begun & (state.remaining_words == 1)))
        may_open = has_words & (is_inside | ~state.is_begun) & (state.phrases_opened_here < MAX_OPEN_RUN)
        return may_tag, may_open, state.last_ended_part & ((state.depth > 1) | (is_inside & ~has_words))

    def _in_order(self, state: TreeState) -> tuple[Tensor, Tensor, Tensor]:
        """Whether a tag, an opening and a closing symbol may follow, if phrases open after their first part."""
        is_inside, has_words = state.depth > 0, state.remaining_words > 0
        may_open = state.last_ended_part & (state.phrases_opened_here < MAX_OPEN_RUN)
        # Outside all phrases, only a new phrase can take further words, so one more phrase must be possible.
        may_close = is_inside & ((state.depth > 1) | ~has_words | (state.phrases_opened_here < MAX_OPEN_RUN))
        return has_words & (is_inside | ~state.is_begun), may_open, may_close

    def _fits(self, state: TreeState, *, opened: int) -> Bool[Tensor, " rows"]:
        """Whether the tree can be ended within the budget after a symbol that changes the depth by `opened`."""
        depth = state.depth + opened
        needed = state.remaining_words + depth + 1  # a tag per word, a closing symbol per phrase, and the end symbol
        if self.rules.in_order:
            needed = needed + 2 * ((depth == 0) & (state.remaining_words > 0)).long()  # a phrase for the other words
        return state.budget - 1 >= needed
