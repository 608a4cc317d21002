"""A CPU stepper, compiled for the processor, for a Transformer built from the paper's parts, in float32 or int8.

Each search runs in one thread and releases the GIL while it computes, so that searches in several threads use
several cores. It computes on rows without padding.
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

INITIAL_CAPACITY = 16  # slots for each sentence in a new cache, which grows as needed


class SlotCache:
    """Keys and values of the decoded tokens of all hypotheses [layers slots width], with one slot for each token."""

    def __init__(self, layers: int, width: int, slots: int) -> None:
        self.used = 0
        self.key_values: NDArray[np.float32] = np.empty((layers, slots, width), np.float32)

    def make_room(self, slots: Slots, length: int) -> None:
        """Makes sure that each row of `slots` can get a new slot for its token at `length`.

        If the cache is full, it drops the slots that no row uses, renumbers the others, also in `slots`, and grows.
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
        """Assigns a new slot to each row for its token at `length`; may renumber slots like `make_room`."""
        self.make_room(slots, length)
        slots[:, length] = np.arange(self.used, self.used + len(slots))
        self.used += len(slots)


class CompiledState(NamedTuple):
    """State of a search. A step consumes it, because the cache and the slots are written in place."""

    memory: Memory
    positions: Floats  # encodings of the positions of all tokens to come [tokens d_model]
    cache: SlotCache
    sentences: Indices  # of each row
    slots: Slots  # of the tokens of each row, in order; the first `length` columns are used
    length: int = 0

    def pick(self, rows: Int[Tensor, " rows"]) -> "CompiledState":
        """Returns the state of the chosen rows."""
        chosen = rows.numpy()
        return self._replace(sentences=self.sentences[chosen], slots=self.slots[chosen])


class CompiledStepper:
    """A stepper with the weights of a model for which `cpu_stepper.is_covered` is true.

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
        """Encodes the sentences and returns the state before the first token.

        The state has one row for each sentence, and room for at most `max_length` tokens.
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
        """Returns log-probabilities of the token after each of `tokens`, and the state with `tokens` appended."""
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
