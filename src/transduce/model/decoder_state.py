"""The state of a decoder during a search: key-value caches, and the rows that belong to its hypotheses.

A `DecoderState` has key-value caches, which grow by one slot for each token; a `RecurrentState` has a fixed size.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from transduce.model.attention_scores import Keys, Values
from transduce.model.next_word_attention import SourceWords


class HypothesisRows(NamedTuple):
    """The hypotheses of a search, each of which is one row of the decoder's input; rows are sorted by sentence.

    A sentence may have any number of hypotheses. Most modules process each row on its own. Attention, however,
    processes all rows of a sentence together, as if they were one sentence of `width` tokens. For this purpose it
    arranges the rows in a rectangle of `batch` sentences × `width` places, in which a sentence with fewer than `width`
    rows has empty places.
    """

    sentences: Int[Tensor, " rows"]  # the index of each row's sentence
    places: Int[Tensor, " rows"]  # the index of each row's place in the flattened rectangle
    batch: int
    width: int

    @classmethod
    def of(cls, sentences: Int[Tensor, " rows"], batch: int) -> "HypothesisRows":
        """Builds the layout from the index of each row's sentence.

        The indices must be sorted and less than `batch`.
        """
        # The position of each row among the rows of its sentence, counted from 0.
        ranks = torch.arange(len(sentences), device=sentences.device) - torch.searchsorted(sentences, sentences)
        width = int(ranks.max()) + 1
        return cls(sentences, sentences * width + ranks, batch, width)

    def to_rectangle(self, states: Shaped[Tensor, "rows new features"]) -> Shaped[Tensor, "batch width_new features"]:
        """Copies the states of each row to its place in the rectangle, and fills empty places with zeros."""
        rows, new, features = states.shape
        if rows < self.batch * self.width:
            states = states.new_zeros(self.batch * self.width, new, features).index_copy_(0, self.places, states)
        return states.reshape(self.batch, self.width * new, features)

    def from_rectangle(
        self, rectangle: Float[Tensor, "batch width_new features"]
    ) -> Float[Tensor, "rows new features"]:
        """Returns the states of each row from its place in the rectangle; the inverse of `to_rectangle`."""
        places = rectangle.reshape(self.batch * self.width, -1, rectangle.shape[2])
        return places if len(self.places) == len(places) else places[self.places]


VisibleSlots = Bool[Tensor, "batch target slots"]


class KeyValueCache:
    """Caches the keys and values of earlier tokens, or the inputs of another mixer, with one slot for each token.

    Slots are appended in place and never reordered. `DecoderState.ancestors` is a mask of the slots that belong to each
    hypothesis, so when the beam is reordered, only this mask changes. When the cache is full, `DecoderState.pick` drops
    the slots that no hypothesis uses.
    """

    def __init__(self, buffers: tuple[Tensor, ...] = (), used: int = 0) -> None:
        self._buffers, self.used = buffers, used

    def extend(self, *new: Float[Tensor, "batch heads new _"]) -> tuple[Float[Tensor, "batch heads slots _"], ...]:
        """Appends new slots to each buffer, and returns views of all slots that are in use."""
        start, self.used = self.used, self.used + new[0].shape[2]
        buffers = self._buffers or (None,) * len(new)
        self._buffers = tuple(_write(buffer, added, start) for buffer, added in zip(buffers, new, strict=True))
        return tuple(buffer[:, :, : self.used] for buffer in self._buffers)

    def select(self, sentences: Int[Tensor, " chosen"], slots: Int[Tensor, "chosen slots"]) -> "KeyValueCache":
        """Copies the given slots of the given sentences to a new cache."""
        return KeyValueCache(tuple(_select_slots(buffer, sentences, slots) for buffer in self._buffers), slots.shape[1])


class DecodingContext(NamedTuple):
    """What a decoder layer needs to process the new tokens of a search: its cache, a mask and the rows."""

    cache: KeyValueCache
    visible: VisibleSlots  # the slots, including the new ones, that each new token may attend to
    rows: HypothesisRows


def capacity_for(slots: int) -> int:
    """Returns the number of slots to allocate when `slots` are needed.

    This is twice that number, and at least 32, so that a growing cache is rarely reallocated.
    """
    return max(2 * slots, 32)


def _select_slots(buffer: Tensor, sentences: Tensor, slots: Tensor) -> Tensor:
    """Copies the given slots of the given sentences to a new buffer [sentences heads capacity _] in a single pass.

    The unused capacity is filled with copies of slot 0, which are hidden by every mask.
    """
    heads, capacity = buffer.shape[1:3]
    slots = functional.pad(slots, (0, capacity_for(slots.shape[1]) - slots.shape[1]))
    # Indices into the buffer with its first three dimensions flattened.
    first = capacity * (heads * sentences.unsqueeze(1) + torch.arange(heads, device=buffer.device))
    places = first.unsqueeze(2) + slots.unsqueeze(1)
    return buffer.flatten(0, 2).index_select(0, places.flatten()).unflatten(0, places.shape)


def _write(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """Writes `new` into the buffer, beginning at slot `start`, and returns the buffer.

    A buffer that is too short is first copied to a larger one.
    """
    end = start + new.shape[2]
    if buffer is None or buffer.shape[2] < end:
        grown = new.new_empty(*new.shape[:2], capacity_for(end), new.shape[3])
        if buffer is not None:
            grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer[:, :, start:end] = new
    return buffer


ASYNCHRONOUS = {"cuda"}  # devices on which reading a size from a tensor forces a synchronisation
SPARSE = 0.75  # on a CPU, finished sentences are dropped once at most this share of the batch is left


class DecoderState(NamedTuple):
    """The state of a decoder with key-value caches.

    The first dimension of the tensors in `memory`, `visible` and `caches` is the sentence; that of `ancestors` is the
    row, that is, the hypothesis. `ancestors` marks the slots, in the caches of the row's sentence, that hold the tokens
    of this row. `slots_after_drop` is the number of slots that were left when unused slots were last dropped. A step
    writes into the caches in place, so the state that was passed to it must not be used again.
    """

    memory: tuple[tuple[Keys, Values], ...]
    visible: Bool[Tensor, "batch 1 source"]
    caches: tuple[KeyValueCache, ...]
    rows: HypothesisRows
    ancestors: Bool[Tensor, "rows slots"]
    length: int = 0
    slots_after_drop: int = 0
    source_words: SourceWords | None = None  # only used by parsers

    def pick(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        """Returns the state of the chosen rows, which must be in the order of their sentences.

        On a GPU, if the total number of rows has not changed, each sentence is assumed to have kept its number of rows,
        because a check would synchronise the device.
        """
        sentences, ancestors = self.rows.sentences[rows], self.ancestors[rows]
        asynchronous = sentences.device.type in ASYNCHRONOUS
        if asynchronous and len(sentences) == len(self.ancestors):
            return self._replace(ancestors=ancestors, source_words=self.source_words and self.source_words.pick(rows))
        remaining = sentences.unique_consecutive()
        # A rectangle with empty places needs many small operations in each step, which are slow on a GPU.
        if len(remaining) < self.rows.batch and (asynchronous or len(remaining) <= SPARSE * self.rows.batch):
            memory = tuple(
                (_select_sentences(keys, remaining), _select_sentences(values, remaining))
                for keys, values in self.memory
            )
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
        """Builds two masks over the caches for a step that appends `new` tokens to each row.

        The first mask marks the slots that each new token may attend to. The second marks all slots of each row's
        tokens, including the new ones.
        """
        rows, ancestors = self.rows, self.ancestors
        same_row = torch.eye(rows.width, dtype=torch.bool, device=ancestors.device)
        causal = torch.ones(new, new, dtype=torch.bool, device=ancestors.device).tril()
        to_new = torch.kron(same_row, causal).expand(rows.batch, -1, -1)
        visible = torch.cat([rows.to_rectangle(ancestors.unsqueeze(1).expand(-1, new, -1)), to_new], dim=2)
        ranks = rows.places - rows.sentences * rows.width  # the position of each row among the rows of its sentence
        new_slots = same_row.repeat_interleave(new, dim=1)[ranks]
        return visible, torch.cat([ancestors, new_slots], dim=1)

    def _drop_unused_slots(self, sentences: Int[Tensor, " batch"]) -> "DecoderState":
        """Keeps only the caches of `sentences`, and in them only the slots that at least one row needs."""
        needed = self.rows.to_rectangle(self.ancestors.unsqueeze(1)).any(1)
        count = int(needed.sum(1).max())
        slots = needed.byte().argsort(dim=1, descending=True, stable=True)[:, :count]
        return self._replace(
            caches=tuple(cache.select(sentences, slots) for cache in self.caches),
            ancestors=self.ancestors.take_along_dim(slots[self.rows.sentences], dim=1),
            slots_after_drop=count,
        )


class RecurrentState(NamedTuple):
    """The state of a decoder without key-value caches, whose size does not grow with the number of tokens.

    `memory` contains tensors with one entry for each sentence, for example the encoder output. `carried` contains
    tensors with one entry for each row.
    """

    memory: tuple[Shaped[Tensor, "batch *rest"], ...]
    rows: HypothesisRows
    carried: tuple[Shaped[Tensor, "rows *rest"], ...]
    length: int = 0

    @classmethod
    def of(cls, memory: tuple[Tensor, ...], carried: tuple[Tensor, ...]) -> "RecurrentState":
        """Builds the state before the first target token, with one row for each sentence."""
        batch = len(memory[0])
        return cls(memory, HypothesisRows.of(torch.arange(batch, device=memory[0].device), batch), carried)

    def pick(self, rows: Int[Tensor, " rows"]) -> "RecurrentState":
        """Returns the state of the chosen rows, and drops the sentences that have no row left.

        The rows must be in the order of their sentences.
        """
        sentences, carried = self.rows.sentences[rows], tuple(tensor[rows] for tensor in self.carried)
        if sentences.device.type in ASYNCHRONOUS and len(sentences) == len(self.rows.sentences):
            return self._replace(carried=carried)  # as in `DecoderState.pick`
        remaining = sentences.unique_consecutive()
        memory, batch = self.memory, self.rows.batch
        if len(remaining) < batch:
            memory, batch = tuple(tensor[remaining] for tensor in memory), len(remaining)
            sentences = torch.searchsorted(remaining, sentences)
        return self._replace(memory=memory, rows=HypothesisRows.of(sentences, batch), carried=carried)


def _select_sentences(key_or_value: Tensor, sentences: Int[Tensor, " chosen"]) -> Tensor:
    """Selects the keys or values of the given sentences, and keeps their memory layout."""
    if key_or_value.is_contiguous():
        return key_or_value.index_select(0, sentences)
    return key_or_value.mT.index_select(0, sentences).mT
