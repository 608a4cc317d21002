"""The encoder and decoder layers in compiled code, which process rows without padding."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.model.compiled.attention import Slots, attend, attend_to_slots, scratch_for, store_keys, store_values
from transduce.model.compiled.compilation import FIRST_INDEX, compiled, inlined
from transduce.model.compiled.instructions import COLUMNS
from transduce.model.compiled.products import multiply
from transduce.model.compiled.rows import Floats, normalise
from transduce.model.compiled.weights import (
    CrossAttentionProducts,
    Decoder,
    Encoder,
    Heads,
    Network,
    Norms,
    SelfAttentionProducts,
)

ROWS_AT_ONCE = 64  # number of rows whose hidden states stay in the processor's cache between two multiplications

Indices = NDArray[np.int64]


class Memory(NamedTuple):
    """The keys and values of the source that the decoder attends to, stored in tiles for each layer and sentence.

    `keys` has the shape [layers sentences heads tiles d_k·COLUMNS], and `values` has the shape [layers sentences heads
    tiles source·COLUMNS]. `store_keys` and `store_values` describe the tiles. `lengths` contains the number of source
    tokens in each sentence.
    """

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    lengths: Indices

    @classmethod
    def allocate(cls, layers: int, heads: Heads, lengths: Indices) -> "Memory":
        """Allocates uninitialised memory for sentences of the given lengths."""
        shape, longest = (layers, len(lengths), heads.heads), int(lengths.max())
        keys = np.empty((*shape, -(-longest // COLUMNS), heads.d_k * COLUMNS), np.float32)
        values = np.empty((*shape, -(-heads.d_v // COLUMNS), longest * COLUMNS), np.float32)
        return cls(keys, values, lengths)


class Written(NamedTuple):
    """The keys and values of the tokens that a search has decoded so far, with a slot for each token.

    `key_values` has the shape [layers slots h·(d_k+d_v)]. The table `slots` [rows tokens] contains the slot of each
    token of each row. When the beam is reordered, only this table changes; the keys and values stay in place.
    """

    key_values: NDArray[np.float32]
    slots: Slots
    length: int


@compiled
def sublayer_input(states: Floats, count: int, norms: Norms, number: int, out: Floats) -> None:
    """Writes the input of sub-layer `number` to `out`: the states, normalised if the model is pre-norm."""
    for row in range(count):
        if norms.is_pre_norm:
            normalise(states[row], norms.gains[number], norms.shifts[number], norms.epsilon, out[row])
        else:
            for i in range(states.shape[1]):
                out[row, i] = states[row, i]


@compiled
def add_output(states: Floats, count: int, output: Floats, norms: Norms, number: int) -> None:
    """Adds the output of sub-layer `number` to the states, and normalises the sum if the model is post-norm."""
    for row in range(count):
        state, added = states[row], output[row]
        for i in range(state.shape[0]):
            state[i] += added[i]
        if not norms.is_pre_norm:
            normalise(state, norms.gains[number], norms.shifts[number], norms.epsilon, state)


@compiled
def feed_forward(states: Floats, count: int, network: Network, layer: int, norms: Norms, number: int) -> None:
    """Applies the position-wise feed-forward network, which is sub-layer `number`, to the states in place."""
    inputs = np.empty(states.shape, np.float32)
    hidden = np.empty((states.shape[0], network.inner.bias.shape[1]), np.float32)
    output = np.empty((states.shape[0], network.outer.bias.shape[1]), np.float32)
    sublayer_input(states, count, norms, number, inputs)
    multiply(inputs, count, network.inner, layer, hidden)
    for row in range(count):
        for i in range(hidden.shape[1]):
            hidden[row, i] = max(hidden[row, i], np.float32(0))
    multiply(hidden, count, network.outer, layer, output)
    add_output(states, count, output, norms, number)


@inlined
def _encode_layer(states: Floats, before: int, starts: Indices, ends: Indices, encoder: Encoder, layer: int) -> None:
    """Applies an encoder layer to several sentences, in place.

    Sentence n consists of the rows of `states` from `starts[n] - before` up to, but not including, `ends[n] - before`.
    """
    attention, heads, rows = encoder.attention, encoder.attention.heads, states.shape[0]
    key_at, value_at = heads.heads * heads.d_k, 2 * heads.heads * heads.d_k
    inputs, longest = np.empty(states.shape, np.float32), 0
    for sentence in range(starts.shape[0]):
        longest = max(longest, ends[sentence] - starts[sentence])
    projected = np.empty((rows, attention.project.bias.shape[1]), np.float32)
    attended = np.empty((rows, heads.heads * heads.d_v), np.float32)
    output = np.empty((rows, attention.output.bias.shape[1]), np.float32)
    keys = np.empty((heads.heads, (longest + COLUMNS - 1) // COLUMNS, heads.d_k * COLUMNS), np.float32)
    values = np.empty((heads.heads, (heads.d_v + COLUMNS - 1) // COLUMNS, longest * COLUMNS), np.float32)
    scratch = scratch_for(keys, values)
    sublayer_input(states, rows, encoder.norms, 2 * layer, inputs)
    multiply(inputs, rows, attention.project, layer, projected)
    for sentence in range(starts.shape[0]):
        first, length = starts[sentence] - before, ends[sentence] - starts[sentence]
        store_keys(projected[first:], key_at, length, heads.d_k, keys)
        store_values(projected[first:], value_at, length, heads.d_v, values)
        attend(projected, first, length, heads, keys, values, length, scratch, attended)
    multiply(attended, rows, attention.output, layer, output)
    add_output(states, rows, output, encoder.norms, 2 * layer)
    feed_forward(states, rows, encoder.network, layer, encoder.norms, 2 * layer + 1)


@compiled
def last_norm(states: Floats, norms: Norms) -> None:
    """Normalises the states after the last layer, which is necessary only in pre-norm models."""
    if norms.is_pre_norm:
        number = norms.gains.shape[0] - 1
        for row in range(states.shape[0]):
            normalise(states[row], norms.gains[number], norms.shifts[number], norms.epsilon, states[row])


@inlined
def encode_sentences(
    tokens: Floats,
    starts: Indices,
    ends: Indices,
    encoder: Encoder,
    cross: CrossAttentionProducts,
    memory: Memory,
    first: int,
) -> None:
    """Encodes several sentences together, and writes the keys and values that the decoder attends to into `memory`.

    Sentence `first + n` of the memory consists of the rows of `tokens` from `starts[n]` up to, but not including,
    `ends[n]`. These rows contain the embedded tokens, and are overwritten.
    """
    before = starts[0]
    states = tokens[before : ends[ends.shape[0] - 1]]
    for layer in range(encoder.network.inner.weight.shape[0]):
        _encode_layer(states, before, starts, ends, encoder, layer)
    last_norm(states, encoder.norms)
    heads, rows = cross.heads, states.shape[0]
    key_width = heads.heads * heads.d_k
    key_values = np.empty((rows, cross.key_value.bias.shape[1]), np.float32)
    for layer in range(cross.key_value.weight.shape[0]):
        multiply(states, rows, cross.key_value, layer, key_values)
        for sentence in range(starts.shape[0]):
            at, length = starts[sentence] - before, ends[sentence] - starts[sentence]
            store_keys(key_values[at:], FIRST_INDEX, length, heads.d_k, memory.keys[layer, first + sentence])
            store_values(key_values[at:], key_width, length, heads.d_v, memory.values[layer, first + sentence])


@compiled
def _attend_to_written(
    states: Floats, written: Written, first: int, attention: SelfAttentionProducts, layer: int, norms: Norms
) -> None:
    """Applies self-attention to the last token of some rows, and caches the keys and values of these tokens.

    `states` contains the hidden states of these tokens and is updated in place. Its first row is row `first` of
    `written`.
    """
    heads, rows, cache = attention.heads, states.shape[0], written.key_values[layer]
    query_width, width = heads.heads * heads.d_k, heads.heads * (heads.d_k + heads.d_v)
    inputs, scores = np.empty(states.shape, np.float32), np.empty(written.length, np.float32)
    projected = np.empty((rows, attention.project.bias.shape[1]), np.float32)
    attended = np.empty((rows, heads.heads * heads.d_v), np.float32)
    output = np.empty((rows, attention.output.bias.shape[1]), np.float32)
    sublayer_input(states, rows, norms, 3 * layer, inputs)
    multiply(inputs, rows, attention.project, layer, projected)
    for row in range(rows):
        slots = written.slots[first + row, : written.length]
        slot = np.uint64(slots[written.length - 1])
        for i in range(width):
            cache[slot, np.uint64(i)] = projected[row, query_width + i]
        attend_to_slots(projected[row], heads, cache, slots, scores, attended[row])
    multiply(attended, rows, attention.output, layer, output)
    add_output(states, rows, output, norms, 3 * layer)


@compiled
def _attend_to_memory(
    states: Floats, sentences: Indices, memory: Memory, cross: CrossAttentionProducts, layer: int, norms: Norms
) -> None:
    """Applies attention over the encoder output to the hidden states, in place.

    The rows of a sentence must be adjacent.
    """
    heads, rows = cross.heads, states.shape[0]
    inputs = np.empty(states.shape, np.float32)
    queries = np.empty((rows, cross.project.bias.shape[1]), np.float32)
    attended = np.empty((rows, heads.heads * heads.d_v), np.float32)
    output = np.empty((rows, cross.output.bias.shape[1]), np.float32)
    sublayer_input(states, rows, norms, 3 * layer + 1, inputs)
    multiply(inputs, rows, cross.project, layer, queries)
    scratch, first = scratch_for(memory.keys[layer, 0], memory.values[layer, 0]), FIRST_INDEX
    while first < rows:  # each iteration processes the rows of one sentence
        sentence, last = sentences[first], first + 1
        while last < rows and sentences[last] == sentence:
            last += 1
        keys, values = memory.keys[layer, sentence], memory.values[layer, sentence]
        attend(queries, first, last - first, heads, keys, values, memory.lengths[sentence], scratch, attended)
        first = last
    multiply(attended, rows, cross.output, layer, output)
    add_output(states, rows, output, norms, 3 * layer + 1)


@inlined
def decode_tokens(states: Floats, sentences: Indices, written: Written, memory: Memory, decoder: Decoder) -> None:
    """Applies all decoder layers to one new token of each row, in place.

    The new token is the last token of its row in `written`. `sentences` contains the index of each row's sentence.
    """
    rows = states.shape[0]
    for layer in range(decoder.network.inner.weight.shape[0]):
        for at in range(0, rows, ROWS_AT_ONCE):
            part, their_sentences = states[at : at + ROWS_AT_ONCE], sentences[at : at + ROWS_AT_ONCE]
            _attend_to_written(part, written, at, decoder.attention, layer, decoder.norms)
            _attend_to_memory(part, their_sentences, memory, decoder.cross, layer, decoder.norms)
            feed_forward(part, part.shape[0], decoder.network, layer, decoder.norms, 3 * layer + 2)
    last_norm(states, decoder.norms)
