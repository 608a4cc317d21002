"""The key-value cache of a decoder layer: slots of earlier tokens, sentence by sentence."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from transduce.model.hypothesis_rows import HypothesisRows

VisibleSlots = Bool[Tensor, "batch target slots"]


class KeyValueCache:
    """Keys and values of earlier tokens, or the inputs of another mixer: one slot a token.

    Slots are appended in place and never reordered. The decoder's state has a mask of the slots of each hypothesis
    (`decoder_state.DecoderState.ancestors`), so reordering a beam reorders the mask and not the cache. Slots of no
    hypothesis are dropped when the cache is full.
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
        """Returns a cache of the chosen sentences, with the chosen slots of each sentence."""
        return KeyValueCache(tuple(_select(buffer, sentences, slots) for buffer in self._buffers), slots.shape[1])


class DecodingContext(NamedTuple):
    """The earlier tokens of a search, for one decoder layer."""

    cache: KeyValueCache
    visible: VisibleSlots  # the slots, old and new, that each new token may attend to
    rows: HypothesisRows


def capacity_for(slots: int) -> int:
    """Returns the number of slots to allocate where `slots` are needed: twice as many, since more will follow."""
    return max(2 * slots, 32)


def _select(buffer: Tensor, sentences: Tensor, slots: Tensor) -> Tensor:
    """Returns a copy of the chosen slots of the chosen sentences, [sentences heads capacity _], made in one pass.

    The slots are filled up to the new capacity with slot 0, which no mask shows there.
    """
    heads, capacity = buffer.shape[1:3]
    slots = functional.pad(slots, (0, capacity_for(slots.shape[1]) - slots.shape[1]))
    # Places in the buffer with its first three dimensions as one.
    first = capacity * (heads * sentences.unsqueeze(1) + torch.arange(heads, device=buffer.device))
    places = first.unsqueeze(2) + slots.unsqueeze(1)
    return buffer.flatten(0, 2).index_select(0, places.flatten()).unflatten(0, places.shape)


def _write(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """Writes `new` at slot `start` and returns the buffer, reallocated where it is too short."""
    end = start + new.shape[2]
    if buffer is None or buffer.shape[2] < end:
        grown = new.new_empty(*new.shape[:2], capacity_for(end), new.shape[3])
        if buffer is not None:
            grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer[:, :, start:end] = new
    return buffer
