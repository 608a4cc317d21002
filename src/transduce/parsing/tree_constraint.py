"""Constrains the search of a parser so that every finished hypothesis is a tree over the words of its sentence."""

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
"""The largest number of phrases that may open in a row at one word. It limits unary chains. Treebanks have up to 8."""

MAX_OPEN_PHRASES = 100
"""The largest number of phrases that may be open at the same time. The treebanks have up to 29."""


def constraint_of(
    linearisation: TopDown | InOrder, source: TokenVocabulary, target: TokenVocabulary, device: torch.device
) -> Callable[[Stepper, Sequence[Sequence[int]], Int[Tensor, " batch"], int], Stepper]:
    """Returns a function that constrains a stepper, given the source tokens, the length bounds and the id of EOS.

    Raises ValueError if the target vocabulary does not consist of tree symbols.
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
    """The role of each token in a vocabulary of tree symbols, and the order in which trees are written."""

    is_tag: Bool[Tensor, " vocabulary"]
    is_open: Bool[Tensor, " vocabulary"]
    is_close: Bool[Tensor, " vocabulary"]
    label: Int[Tensor, " vocabulary"]  # the number of the label of an opening or closing symbol; 0 for all others
    in_order: bool  # whether the first part of a phrase comes before its opening symbol

    @classmethod
    def of(
        cls, symbols: Sequence[str], first_symbol_id: int, *, in_order: bool, device: torch.device | None = None
    ) -> "TreeRules":
        """Returns the rules for a vocabulary with these symbols.

        Ids below `first_symbol_id` are special tokens, which neither open or close a phrase nor are tags.
        """
        names = [symbol if token >= first_symbol_id else "" for token, symbol in enumerate(symbols)]
        opens, closes = list(map(opens_phrase, names)), list(map(closes_phrase, names))
        tags = [bool(symbol) and not (opens[n] or closes[n]) for n, symbol in enumerate(names)]
        labels = [symbol[1:] if opens[n] or closes[n] else "" for n, symbol in enumerate(names)]
        numbers = {label: number for number, label in enumerate(sorted({"", *labels}))}
        is_tag, is_open, is_close = (torch.tensor(kind, device=device) for kind in (tags, opens, closes))
        label = torch.tensor([numbers[label] for label in labels], device=device)
        return cls(is_tag, is_open, is_close, label, in_order)


class TreeState(NamedTuple):
    """The state of the inner stepper, and the unfinished tree of each row."""

    inner: StepperState
    labels: Int[Tensor, "rows depth"]  # the labels of the open phrases, the outermost first
    depth: Int[Tensor, " rows"]  # the number of open phrases
    remaining_words: Int[Tensor, " rows"]  # the number of words that have no part of speech yet
    budget: Int[Tensor, " rows"]  # the number of tokens that may still be generated, including EOS
    # The number of phrases that have been opened since the last word or, top down, since the last closing symbol.
    phrases_opened_here: Int[Tensor, " rows"]
    is_begun: Bool[Tensor, " rows"]  # whether a symbol has been generated
    last_ended_part: Bool[Tensor, " rows"]  # whether the last symbol ended a part, as a tag or a closing symbol does

    def pick(self, rows: Int[Tensor, " rows"]) -> "TreeState":
        """Returns the state of the given rows."""
        return TreeState(self.inner.pick(rows), *(part[rows] for part in self[1:]))


class TreeConstraint:
    """Wraps a stepper so that every hypothesis can become a tree over the words of its sentence.

    A token after which this would be impossible gets a log-probability of −∞. All other tokens keep the log-probability
    that the model assigns. `word_counts` contains the number of words in each sentence. `bounds` contains the maximum
    number of tokens, including EOS, in a hypothesis for each sentence. A phrase may open only if enough tokens are left
    to complete the tree.
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
        """Returns the state before the first token."""
        zeros, no = torch.zeros_like(self.word_counts), torch.zeros_like(self.word_counts, dtype=torch.bool)
        labels = zeros.new_zeros(len(zeros), min(max_length, MAX_OPEN_PHRASES))
        inner = self.inner.start(source, visible, max_length)
        return TreeState(inner, labels, zeros, self.word_counts, self.bounds + 1, zeros, no, no)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: TreeState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], TreeState]:
        """Returns the log-probabilities of the inner stepper, and the state after `tokens`.

        The log-probability of a token that is not allowed is −∞.
        """
        log_probabilities, inner = self.inner.step(tokens, state.inner)
        state = state._replace(inner=inner)
        for index in range(tokens.shape[1]):
            state = self._write(tokens[:, index], state)
            log_probabilities[:, index].masked_fill_(~self._allowed(state), -math.inf)
        return log_probabilities, state

    def _write(self, tokens: Int[Tensor, " rows"], state: TreeState) -> TreeState:
        """Returns the state after one more token in each row. BOS only reduces the budget by one token."""
        tag, opens, closes = (flags[tokens] for flags in self.rules[:3])
        level = state.depth.clamp(max=state.labels.shape[1] - 1).unsqueeze(1)
        label = torch.where(opens.unsqueeze(1), self.rules.label[tokens].unsqueeze(1), state.labels.gather(1, level))
        run_ends = tag if self.rules.in_order else tag | closes
        return state._replace(
            labels=state.labels.scatter(1, level, label),
            # On a GPU, the search also passes arbitrary tokens for rows whose hypothesis has been discarded.
            depth=(state.depth + opens.long() - closes.long()).clamp(0, state.labels.shape[1]),
            remaining_words=state.remaining_words - tag.long(),
            budget=state.budget - 1,
            phrases_opened_here=(state.phrases_opened_here + opens.long()).masked_fill(run_ends, 0),
            is_begun=state.is_begun | tag | opens,
            last_ended_part=tag | closes,
        )

    def _allowed(self, state: TreeState) -> Bool[Tensor, "rows vocabulary"]:
        """Returns which tokens may follow in each row."""
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
        """Returns whether a tag, an opening symbol and a closing symbol may follow in each row.

        Applies the rules of the top-down linearisation, in which a phrase opens before its parts.
        """
        is_inside, has_words = state.depth > 0, state.remaining_words > 0
        # Only a sentence of a single word may have a tree without a phrase.
        may_tag = has_words & (is_inside | (~state.is_begun & (state.remaining_words == 1)))
        may_open = has_words & (is_inside | ~state.is_begun) & (state.phrases_opened_here < MAX_OPEN_RUN)
        return may_tag, may_open, state.last_ended_part & ((state.depth > 1) | (is_inside & ~has_words))

    def _in_order(self, state: TreeState) -> tuple[Tensor, Tensor, Tensor]:
        """Returns whether a tag, an opening symbol and a closing symbol may follow in each row.

        Applies the rules of the in-order linearisation, in which a phrase opens after its first part.
        """
        is_inside, has_words = state.depth > 0, state.remaining_words > 0
        may_open = state.last_ended_part & (state.phrases_opened_here < MAX_OPEN_RUN)
        # If words remain, the outermost phrase may close only if another phrase may open around it.
        may_close = is_inside & ((state.depth > 1) | ~has_words | (state.phrases_opened_here < MAX_OPEN_RUN))
        return has_words & (is_inside | ~state.is_begun), may_open, may_close

    def _fits(self, state: TreeState, *, opened: int) -> Bool[Tensor, " rows"]:
        """Returns whether the budget allows the tree to be completed after a symbol that adds `opened` to the depth."""
        depth = state.depth + opened
        needed = state.remaining_words + depth + 1  # a tag per word, a closing symbol per phrase, and EOS
        if self.rules.in_order:
            needed = needed + 2 * ((depth == 0) & (state.remaining_words > 0)).long()  # a phrase for remaining words
        return state.budget - 1 >= needed
