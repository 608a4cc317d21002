"""States of a search over a model: with a key-value cache that grows by a slot a token, or of fixed size."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from transduce.model.attention import Values
from transduce.model.attention_scores import Keys
from transduce.model.hypothesis_rows import HypothesisRows
from transduce.model.kv_cache import KeyValueCache, capacity_for
from transduce.model.next_word_attention import SourceWords

ASYNCHRONOUS = {"cuda"}  # devices where reading a size synchronises
SPARSE = 0.75  # where at most this share of the sentences still has a row, the other sentences are dropped


class DecoderState(NamedTuple):
    """State with key-value caches: `memory`, `visible` and `caches` by sentence, `ancestors` by row (hypothesis).

    `ancestors` marks the slots of each row's tokens in the caches of its sentence. `slots_after_drop` is the number of
    slots after unused slots were last dropped. A step consumes its state: caches are written in place.
    """

    memory: tuple[tuple[Keys, Values], ...]
    visible: Bool[Tensor, "batch 1 source"]
    caches: tuple[KeyValueCache, ...]
    rows: HypothesisRows
    ancestors: Bool[Tensor, "rows slots"]
    length: int = 0
    slots_after_drop: int = 0
    source_words: SourceWords | None = None  # of a parser

    def pick(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        """Returns the state of the chosen rows, whose sentences are in order.

        On a GPU, where the number of rows is unchanged, the number of every sentence's rows is assumed unchanged: a
        check would synchronise.
        """
        sentences, ancestors = self.rows.sentences[rows], self.ancestors[rows]
        asynchronous = sentences.device.type in ASYNCHRONOUS
        if asynchronous and len(sentences) == len(self.ancestors):
            return self._replace(ancestors=ancestors, source_words=self.source_words and self.source_words.pick(rows))
        remaining = sentences.unique_consecutive()
        # A rectangle with empty places costs many small operations in every step, which slows a GPU.
        if len(remaining) < self.rows.batch and (asynchronous or len(remaining) <= SPARSE * self.rows.batch):
            memory = tuple((_select(keys, remaining), _select(values, remaining)) for keys, values in self.memory)
            new_rows = HypothesisRows.of(torch.searchsorted(remaining, sentences), len(remaining))
            words = self.source_words and self.source_words.pick(rows, remaining)
            state = self._replace(memory=memory, visible=self.visible[remaining], rows=new_rows, ancestors=ancestors)
            return state._replace(source_words=words)._drop_unused_slots(remaining)
        words = self.source_words and self.source_words.pick(rows)
        state = self._replace(
            rows=HypothesisRows.of(sentences, self.rows.batch), ancestors=ancestors, source_words=words
        )
        if ancestors.shape[1] + state.rows.width <= capacity_for(self.slots_after_drop):
            return state
        return state._drop_unused_slots(torch.arange(self.rows.batch, device=sentences.device))

    def masks(self, new: int) -> tuple[Bool[Tensor, "batch target slots"], Bool[Tensor, "rows slots"]]:
        """Returns two masks over the caches once `new` tokens a row are appended.

        The first marks the slots that each new token may attend to, the second the slots of each row's tokens.
        """
        rows, ancestors = self.rows, self.ancestors
        same_row = torch.eye(rows.width, dtype=torch.bool, device=ancestors.device)
        causal = torch.ones(new, new, dtype=torch.bool, device=ancestors.device).tril()
        to_new = torch.kron(same_row, causal).expand(rows.batch, -1, -1)
        visible = torch.cat([rows.to_rectangle(ancestors.unsqueeze(1).expand(-1, new, -1)), to_new], dim=2)
        ranks = rows.places - rows.sentences * rows.width  # of each row within its sentence
        new_slots = same_row.repeat_interleave(new, dim=1)[ranks]
        return visible, torch.cat([ancestors, new_slots], dim=1)

    def _drop_unused_slots(self, sentences: Int[Tensor, " batch"]) -> "DecoderState":
        """Returns the state with caches of `sentences` only, whose slots are those that a row needs."""
        needed = self.rows.to_rectangle(self.ancestors.unsqueeze(1)).any(1)
        count = int(needed.sum(1).max())
        slots = needed.byte().argsort(dim=1, descending=True, stable=True)[:, :count]
        return self._replace(
            caches=tuple(cache.select(sentences, slots) for cache in self.caches),
            ancestors=self.ancestors.take_along_dim(slots[self.rows.sentences], dim=1),
            slots_after_drop=count,
        )


class RecurrentState(NamedTuple):
    """A state of fixed size: tensors by sentence, such as the encoder's output, and tensors that each row carries."""

    memory: tuple[Shaped[Tensor, "batch *rest"], ...]
    rows: HypothesisRows
    carried: tuple[Shaped[Tensor, "rows *rest"], ...]
    length: int = 0

    @classmethod
    def of(cls, memory: tuple[Tensor, ...], carried: tuple[Tensor, ...]) -> "RecurrentState":
        """Builds the state before the first token: one row a sentence."""
        batch = len(memory[0])
        return cls(memory, HypothesisRows.of(torch.arange(batch, device=memory[0].device), batch), carried)

    def pick(self, rows: Int[Tensor, " rows"]) -> "RecurrentState":
        """Returns the state of the chosen rows, whose sentences are in order, without sentences that have no row."""
        sentences, carried = self.rows.sentences[rows], tuple(part[rows] for part in self.carried)
        if sentences.device.type in ASYNCHRONOUS and len(sentences) == len(self.rows.sentences):
            return self._replace(carried=carried)  # as in `DecoderState.pick`
        remaining = sentences.unique_consecutive()
        memory, batch = self.memory, self.rows.batch
        if len(remaining) < batch:
            memory, batch = tuple(part[remaining] for part in memory), len(remaining)
            sentences = torch.searchsorted(remaining, sentences)
        return self._replace(memory=memory, rows=HypothesisRows.of(sentences, batch), carried=carried)


def _select(key_or_value: Tensor, sentences: Int[Tensor, " chosen"]) -> Tensor:
    """Returns the keys or values of the chosen sentences, in the same memory layout."""
    if key_or_value.is_contiguous():
        return key_or_value.index_select(0, sentences)
    return key_or_value.mT.index_select(0, sentences).mT
