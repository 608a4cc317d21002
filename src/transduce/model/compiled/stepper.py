"""A compiled stepper for a CPU, in float32 or int8, for Transformers built only from the paper's parts.

Each search runs in a single thread and releases the GIL while it computes, so that searches in several threads use
several cores. Rows are processed without padding.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from transduce.model.compiled.attention import Slots
from transduce.model.compiled.layers import Indices, Memory, Written
from transduce.model.compiled.rows import Floats
from transduce.model.compiled.steps import decode, encode
from transduce.model.compiled.weights import handle_of, pack_weights
from transduce.model.transformer import TransformerModel

INITIAL_CAPACITY = 16  # number of slots for each sentence in a new cache, which grows when necessary


class SlotCache:
    """Caches the keys and values of the decoded tokens of all hypotheses, with one slot for each token.

    The array `key_values` has the shape [layers slots width].
    """

    def __init__(self, layers: int, width: int, slots: int) -> None:
        self.used = 0
        self.key_values: NDArray[np.float32] = np.empty((layers, slots, width), np.float32)

    def make_room(self, slots: Slots, length: int) -> None:
        """Makes sure that the cache has a free slot for the next token of each row, which is at position `length`.

        If the cache is full, unused slots are dropped, the remaining slots are renumbered, also in `slots`, and the
        cache grows.
        """
        rows = len(slots)
        if self.used + rows > self.key_values.shape[1]:
            layers, capacity, width = self.key_values.shape
            is_used = np.zeros(capacity, bool)
            is_used[slots[:, :length]] = True
            used_slots = is_used.nonzero()[0]
            slots[:, :length] = (is_used.cumsum() - 1)[slots[:, :length]]
            self.used = len(used_slots)
            larger = np.empty((layers, 2 * (self.used + rows), width), np.float32)
            larger[:, : self.used] = self.key_values[:, used_slots]
            self.key_values = larger

    def extend(self, slots: Slots, length: int) -> None:
        """Assigns a new slot to the token of each row at position `length`.

        First calls `make_room`, which may renumber the slots in the table `slots`.
        """
        self.make_room(slots, length)
        slots[:, length] = np.arange(self.used, self.used + len(slots))
        self.used += len(slots)


class CompiledState(NamedTuple):
    """The state of a search with a `CompiledStepper`.

    A step writes into the cache and the slots in place, so the state that was passed to it must not be used again.
    """

    memory: Memory
    positions: Floats  # positional encodings up to the maximum length [tokens d_model]
    cache: SlotCache
    sentences: Indices  # the index of each row's sentence
    slots: Slots  # the slot of each token of each row; only the first `length` columns are used
    length: int = 0

    def pick(self, rows: Int[Tensor, " rows"]) -> "CompiledState":
        """Returns the state of the chosen rows."""
        chosen = rows.numpy()
        return self._replace(sentences=self.sentences[chosen], slots=self.slots[chosen])


class CompiledStepper:
    """A stepper that runs a Transformer in compiled code; the model must satisfy `cpu_stepper.is_covered`.

    Several threads may search with it at the same time.
    """

    def __init__(self, model: TransformerModel, *, int8: bool) -> None:
        self.source_embedding, self.positions = model.source_embedding, model.target_embedding.positions
        self.max_positions = model.max_positions
        self.weights = pack_weights(model, int8=int8)
        self.handle = handle_of(self.weights)

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> CompiledState:
        """Encodes the sentences and returns the state before the first target token.

        The state has one row for each sentence. At most `max_length` tokens may be appended to each row.
        """
        assert self.max_positions is None or max_length <= self.max_positions, (
            "the caller bounds `max_length` by the model's positions"
        )
        states: Floats = self.source_embedding(source)[visible].float().numpy()
        lengths: Indices = visible.sum(1).numpy()
        decoder, batch = self.weights.decoder, len(lengths)
        layers, cross, written = len(decoder.network.inner.weight), decoder.cross.heads, decoder.attention.heads
        memory = Memory.allocate(layers, cross, lengths)
        ends = lengths.cumsum()
        encode(states, ends - lengths, ends, self.handle, memory)
        return CompiledState(
            memory=memory,
            positions=self.positions(0, max_length).numpy(),
            cache=SlotCache(layers, written.heads * (written.d_k + written.d_v), INITIAL_CAPACITY * batch),
            sentences=np.arange(batch),
            slots=np.empty((batch, INITIAL_CAPACITY), np.int32),
        )

    def step(
        self, tokens: Int[Tensor, "rows new"], state: CompiledState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], CompiledState]:
        """Returns log-probabilities of the token that follows each of `tokens`, and the state after `tokens`."""
        rows, new = tokens.shape
        results = torch.empty(new, rows, self.weights.tokens)  # in the order in which they are written
        for column in range(new):
            length, slots = state.length, state.slots
            if length == slots.shape[1]:
                slots = np.concatenate([slots, np.empty_like(slots)], axis=1)
            state.cache.extend(slots, length)
            written = Written(state.cache.key_values, slots, length + 1)
            last, out = np.ascontiguousarray(tokens.numpy()[:, column]), results[column].numpy()
            decode(last, state.positions[length], state.sentences, written, state.memory, self.handle, out)
            state = state._replace(slots=slots, length=length + 1)
        return results.transpose(0, 1), state
