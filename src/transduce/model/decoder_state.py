"""States of a search over a model: the rows of its hypotheses, the key-value caches, and the states made from both.

A state has either a key-value cache that grows by one slot for each token (`DecoderState`) or a fixed size
(`RecurrentState`).
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from transduce.model.attention_scores import Keys, Values
from transduce.model.next_word_attention import SourceWords


class HypothesisRows(NamedTuple):
    """Hypotheses of several sentences: any number for each sentence, in the order of the sentences.

    Attention works sentence by sentence. It reads the rows of a sentence side by side in a rectangle of `batch`
    sentences × `width` places, as if they were one sentence of `width` tokens. Everything else works on the rows
    themselves.
    """

    sentences: Int[Tensor, " rows"]  # the sentence of each row
    places: Int[Tensor, " rows"]  # the place of each row in the rectangle, counted sentence by sentence
    batch: int
    width: int

    @classmethod
    def of(cls, sentences: Int[Tensor, " rows"], batch: int) -> "HypothesisRows":
        """Builds the layout of rows; `sentences` must be sorted and less than `batch`."""
        # The number of each row within its sentence, from 0.
        ranks = torch.arange(len(sentences), device=sentences.device) - torch.searchsorted(sentences, sentences)
        width = int(ranks.max()) + 1
        return cls(sentences, sentences * width + ranks, batch, width)

    def to_rectangle(self, states: Shaped[Tensor, "rows new features"]) -> Shaped[Tensor, "batch width_new features"]:
        """Puts each row's states at its place in the rectangle; places without a row are filled with zeros."""
        rows, new, features = states.shape
        if rows < self.batch * self.width:
            states = states.new_zeros(self.batch * self.width, new, features).index_copy_(0, self.places, states)
        return states.reshape(self.batch, self.width * new, features)

    def from_rectangle(
        self, rectangle: Float[Tensor, "batch width_new features"]
    ) -> Float[Tensor, "rows new features"]:
        """Takes each row's states out of the rectangle; the inverse of `to_rectangle`."""
        places = rectangle.reshape(self.batch * self.width, -1, rectangle.shape[2])
        return places if len(self.places) == len(places) else places[self.places]


VisibleSlots = Bool[Tensor, "batch target slots"]


class KeyValueCache:
    """Keys and values of earlier tokens, or the inputs of another mixer, with one slot for each token.

    Slots are appended in place and never reordered. The decoder's state holds a mask of each hypothesis's slots
    (`DecoderState.ancestors`), so reordering a beam reorders the mask and not the cache. When the cache is full, slots
    that no hypothesis uses are dropped.
    """

    def __init__(self, buffers: tuple[Tensor, ...] = (), used: int = 0) -> None:
        self._buffers, self.used = buffers, used

    def extend(self, *new: Float[Tensor, "batch heads new _"]) -> tuple[Float[Tensor, "batch heads slots _"], ...]:
        """Appends new slots to each buffer and returns views of all used slots."""
        start, self.used = self.used, self.used + new[0].shape[2]
        buffers = self._buffers or (None,) * len(new)
        self._buffers = tuple(_write(buffer, added, start) for buffer, added in zip(buffers, new, strict=True))
        return tuple(buffer[:, :, : self.used] for buffer in self._buffers)

    def select(self, sentences: Int[Tensor, " chosen"], slots: Int[Tensor, "chosen slots"]) -> "KeyValueCache":
        """Copies the chosen slots of the chosen sentences into a new cache."""
        return KeyValueCache(tuple(_select_slots(buffer, sentences, slots) for buffer in self._buffers), slots.shape[1])


class DecodingContext(NamedTuple):
    """The earlier tokens of a search, for one decoder layer."""

    cache: KeyValueCache
    visible: VisibleSlots  # the slots, old and new, that each new token may attend to
    rows: HypothesisRows


def capacity_for(slots: int) -> int:
    """Returns the slots to allocate if `slots` are needed: twice as many, at least 32, because more will follow."""
    return max(2 * slots, 32)


def _select_slots(buffer: Tensor, sentences: Tensor, slots: Tensor) -> Tensor:
    """Copies the chosen slots of the chosen sentences in one pass, to [sentences heads capacity _].

    The rest of the new capacity is filled with copies of slot 0, which every mask hides.
    """
    heads, capacity = buffer.shape[1:3]
    slots = functional.pad(slots, (0, capacity_for(slots.shape[1]) - slots.shape[1]))
    # Indices into the buffer with its first three dimensions flattened.
    first = capacity * (heads * sentences.unsqueeze(1) + torch.arange(heads, device=buffer.device))
    places = first.unsqueeze(2) + slots.unsqueeze(1)
    return buffer.flatten(0, 2).index_select(0, places.flatten()).unflatten(0, places.shape)


def _write(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """Writes `new` at slot `start` and returns the buffer, reallocated if it is too short."""
    end = start + new.shape[2]
    if buffer is None or buffer.shape[2] < end:
        grown = new.new_empty(*new.shape[:2], capacity_for(end), new.shape[3])
        if buffer is not None:
            grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer[:, :, start:end] = new
    return buffer


ASYNCHRONOUS = {"cuda"}  # devices on which reading a size synchronises
SPARSE = 0.75  # sentences without a row are dropped when at most this share of the sentences still has one


class DecoderState(NamedTuple):
    """State with key-value caches: `memory`, `visible` and `caches` by sentence, `ancestors` by row (hypothesis).

    `ancestors` marks the slots of each row's tokens in the caches of its sentence. `slots_after_drop` is the number of
    slots that were left when unused slots were last dropped. A step consumes its state, because the caches are written
    in place.
    """

    memory: tuple[tuple[Keys, Values], ...]
    visible: Bool[Tensor, "batch 1 source"]
    caches: tuple[KeyValueCache, ...]
    rows: HypothesisRows
    ancestors: Bool[Tensor, "rows slots"]
    length: int = 0
    slots_after_drop: int = 0
    source_words: SourceWords | None = None  # only in parsers

    def pick(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        """Returns the state of the chosen rows, which must be in the order of their sentences.

        On a GPU, if the number of rows is unchanged, the number of rows of each sentence is assumed to be unchanged
        too, because a check would synchronise the device.
        """
        sentences, ancestors = self.rows.sentences[rows], self.ancestors[rows]
        asynchronous = sentences.device.type in ASYNCHRONOUS
        if asynchronous and len(sentences) == len(self.ancestors):
            return self._replace(ancestors=ancestors, source_words=self.source_words and self.source_words.pick(rows))
        remaining = sentences.unique_consecutive()
        # A rectangle with empty places needs many small operations in every step, which are slow on a GPU.
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
        """Keeps only the caches of `sentences`, and in them only the slots that a row needs."""
        needed = self.rows.to_rectangle(self.ancestors.unsqueeze(1)).any(1)
        count = int(needed.sum(1).max())
        slots = needed.byte().argsort(dim=1, descending=True, stable=True)[:, :count]
        return self._replace(
            caches=tuple(cache.select(sentences, slots) for cache in self.caches),
            ancestors=self.ancestors.take_along_dim(slots[self.rows.sentences], dim=1),
            slots_after_drop=count,
        )


class RecurrentState(NamedTuple):
    """A state of fixed size: tensors by sentence (for example the encoder's output), and tensors by row."""

    memory: tuple[Shaped[Tensor, "batch *rest"], ...]
    rows: HypothesisRows
    carried: tuple[Shaped[Tensor, "rows *rest"], ...]
    length: int = 0

    @classmethod
    def of(cls, memory: tuple[Tensor, ...], carried: tuple[Tensor, ...]) -> "RecurrentState":
        """Builds the state before the first token, with one row for each sentence."""
        batch = len(memory[0])
        return cls(memory, HypothesisRows.of(torch.arange(batch, device=memory[0].device), batch), carried)

    def pick(self, rows: Int[Tensor, " rows"]) -> "RecurrentState":
        """Returns the state of the chosen rows, without sentences that have no row left.

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
    """Selects the keys or values of the chosen sentences and keeps their memory layout."""
    if key_or_value.is_contiguous():
        return key_or_value.index_select(0, sentences)
    return key_or_value.mT.index_select(0, sentences).mT
