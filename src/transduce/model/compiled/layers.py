"""The layers of encoder and decoder in compiled code, on rows without padding."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.model.compiled.compilation import FIRST_INDEX, compiled, inlined, summed
from transduce.model.compiled.instructions import COLUMNS, ROWS
from transduce.model.compiled.products import multiply, multiply_tiles
from transduce.model.compiled.rows import Floats, normalise, softmax
from transduce.model.compiled.weights import (
    CrossAttentionProducts,
    Decoder,
    Encoder,
    Heads,
    Network,
    Norms,
    SelfAttentionProducts,
)

ROWS_AT_ONCE = 64  # rows whose states between two products stay in a processor's cache

Indices = NDArray[np.int64]
Slots = NDArray[np.int32]


class Memory(NamedTuple):
    """What the decoder attends to in the source: keys and values in tiles, layer by layer and sentence by sentence.

    Keys are [layers sentences heads tiles d_k·COLUMNS], values [layers sentences heads tiles source·COLUMNS]
    (`store_keys`, `store_values`).
    """

    keys: NDArray[np.float32]
    values: NDArray[np.float32]
    lengths: Indices

    @classmethod
    def allocate(cls, layers: int, heads: Heads, lengths: Indices) -> "Memory":
        """Returns uninitialised memory for sentences of these lengths."""
        shape, longest = (layers, len(lengths), heads.heads), int(lengths.max())
        keys = np.empty((*shape, -(-longest // COLUMNS), heads.d_k * COLUMNS), np.float32)
        values = np.empty((*shape, -(-heads.d_v // COLUMNS), longest * COLUMNS), np.float32)
        return cls(keys, values, lengths)


class Written(NamedTuple):
    """The tokens of a search: keys and values [layers slots h·(d_k+d_v)], and the slots of each row's tokens.

    A token's slot never moves: another choice of hypotheses is another table `slots` [rows tokens].
    """

    key_values: NDArray[np.float32]
    slots: Slots
    length: int


@compiled
def sublayer_input(states: Floats, count: int, norms: Norms, number: int, out: Floats) -> None:
    """Writes the input of sub-layer `number`: the states, normalised with pre-norm."""
    for row in range(count):
        if norms.is_pre_norm:
            normalise(states[row], norms.gains[number], norms.shifts[number], norms.epsilon, out[row])
        else:
            for i in range(states.shape[1]):
                out[row, i] = states[row, i]


@compiled
def add_output(states: Floats, count: int, output: Floats, norms: Norms, number: int) -> None:
    """Adds the output of sub-layer `number` to the states; with post-norm the sum is normalised."""
    for row in range(count):
        state, added = states[row], output[row]
        for i in range(state.shape[0]):
            state[i] += added[i]
        if not norms.is_pre_norm:
            normalise(state, norms.gains[number], norms.shifts[number], norms.epsilon, state)


@compiled
def feed_forward(states: Floats, count: int, network: Network, layer: int, norms: Norms, number: int) -> None:
    """Applies the position-wise network, sub-layer `number`, to the states."""
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


@compiled
def store_keys(rows: Floats, at: int, count: int, d_k: int, keys: Floats) -> None:
    """Stores the keys of `count` rows, features `at` and on, in tiles [heads tiles d_k·COLUMNS] of `COLUMNS` tokens."""
    for head in range(keys.shape[0]):
        for t in range(keys.shape[1] * COLUMNS):
            for i in range(d_k):
                key = rows[t, at + head * d_k + i] if t < count else np.float32(0)
                keys[head, t // COLUMNS, i * COLUMNS + t % COLUMNS] = key


@compiled
def store_values(rows: Floats, at: int, count: int, d_v: int, values: Floats) -> None:
    """Stores the values of `count` rows, features `at` and on, in tiles [heads tiles source·COLUMNS] of features."""
    for head in range(values.shape[0]):
        for t in range(count):
            for i in range(values.shape[1] * COLUMNS):
                value = rows[t, at + head * d_v + i] if i < d_v else np.float32(0)
                values[head, i // COLUMNS, t * COLUMNS + i % COLUMNS] = value


@compiled
def attend(
    queries: Floats, first: int, count: int, heads: Heads, keys: Floats, values: Floats, length: int, out: Floats
) -> None:
    """Computes equation 1 for `count` rows from `first` on, which attend to the same `length` tokens.

    A row begins with the queries of all heads.
    """
    scores = np.empty((ROWS, keys.shape[1] * COLUMNS), np.float32)
    mixed = np.empty((ROWS, values.shape[1] * COLUMNS), np.float32)
    columns = max(keys.shape[1], values.shape[1]) * COLUMNS
    starts, zeros = np.zeros((1, columns), np.int32), np.zeros((1, columns), np.float32)
    for at in range(first, first + count, ROWS):
        rows = min(ROWS, first + count - at)
        for head in range(heads.heads):
            multiply_tiles(
                queries, at * queries.shape[1] + head * heads.d_k, queries.shape[1], rows, zeros,
                keys, head * keys.shape[1] * keys.shape[2], keys.shape[2], keys.shape[1], heads.d_k,
                starts, zeros, zeros, FIRST_INDEX, scores, FIRST_INDEX, scores.shape[1],
            )  # fmt: skip
            for row in range(rows):
                softmax(scores[row], length, heads.scale)
            multiply_tiles(
                scores, FIRST_INDEX, scores.shape[1], rows, zeros,
                values, head * values.shape[1] * values.shape[2], values.shape[2], values.shape[1], length,
                starts, zeros, zeros, FIRST_INDEX, mixed, FIRST_INDEX, mixed.shape[1],
            )  # fmt: skip
            for row in range(rows):
                for i in range(heads.d_v):
                    out[at + row, head * heads.d_v + i] = mixed[row, i]


@summed
def _dot(query: Floats, keys: Floats, slot: np.uint64, at: int) -> np.float32:
    total = np.float32(0)
    for i in range(query.shape[0]):
        total += query[i] * keys[slot, np.uint64(at + i)]
    return total


@compiled
def attend_to_slots(query: Floats, heads: Heads, key_values: Floats, slots: Slots, scores: Floats, out: Floats) -> None:
    """Computes equation 1 for all heads of a query row; a slot has the keys, then the values of all heads."""
    length = slots.shape[0]
    for i in range(heads.heads * heads.d_v):
        out[i] = 0
    for head in range(heads.heads):
        at, value_at = head * heads.d_k, heads.heads * heads.d_k + head * heads.d_v
        part = query[at : at + heads.d_k]
        for t in range(length):
            scores[t] = _dot(part, key_values, np.uint64(slots[t]), at)
        softmax(scores, length, heads.scale)
        summed_values = out[head * heads.d_v : (head + 1) * heads.d_v]
        for t in range(length):
            weight, slot = scores[t], np.uint64(slots[t])
            for i in range(heads.d_v):
                summed_values[i] += weight * key_values[slot, np.uint64(value_at + i)]


@inlined
def _encode_layer(states: Floats, before: int, starts: Indices, ends: Indices, encoder: Encoder, layer: int) -> None:
    """Applies a layer to some sentences; their places in `states` are `starts` and `ends` minus `before`."""
    attention, heads, rows = encoder.attention, encoder.attention.heads, states.shape[0]
    key_at, value_at = heads.heads * heads.d_k, 2 * heads.heads * heads.d_k
    inputs, longest = np.empty(states.shape, np.float32), 0
    for sentence in range(starts.shape[0]):
        longest = max(longest, ends[sentence] - starts[sentence])
    projected = np.empty((rows, attention.project.bias.shape[1]), np.float32)
    attended = np.empty((rows, heads.heads * heads.d_v), np.float32)
    output = np.empty((rows, attention.join.bias.shape[1]), np.float32)
    keys = np.empty((heads.heads, (longest + COLUMNS - 1) // COLUMNS, heads.d_k * COLUMNS), np.float32)
    values = np.empty((heads.heads, (heads.d_v + COLUMNS - 1) // COLUMNS, longest * COLUMNS), np.float32)
    sublayer_input(states, rows, encoder.norms, 2 * layer, inputs)
    multiply(inputs, rows, attention.project, layer, projected)
    for sentence in range(starts.shape[0]):
        first, length = starts[sentence] - before, ends[sentence] - starts[sentence]
        store_keys(projected[first:], key_at, length, heads.d_k, keys)
        store_values(projected[first:], value_at, length, heads.d_v, values)
        attend(projected, first, length, heads, keys, values, length, attended)
    multiply(attended, rows, attention.join, layer, output)
    add_output(states, rows, output, encoder.norms, 2 * layer)
    feed_forward(states, rows, encoder.network, layer, encoder.norms, 2 * layer + 1)


@compiled
def last_norm(states: Floats, norms: Norms) -> None:
    """Applies the norm after the last layer, which pre-norm has."""
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
    """Encodes some sentences side by side, and writes what the decoder attends to.

    Sentence `first + n` of the memory has the embedded tokens from row `starts[n]` to `ends[n]`. Overwrites `tokens`.
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
    """Applies self-attention to rows `first` and on, and writes their keys and values."""
    heads, rows, cache = attention.heads, states.shape[0], written.key_values[layer]
    query_width, width = heads.heads * heads.d_k, heads.heads * (heads.d_k + heads.d_v)
    inputs, scores = np.empty(states.shape, np.float32), np.empty(written.length, np.float32)
    projected = np.empty((rows, attention.project.bias.shape[1]), np.float32)
    attended = np.empty((rows, heads.heads * heads.d_v), np.float32)
    output = np.empty((rows, attention.join.bias.shape[1]), np.float32)
    sublayer_input(states, rows, norms, 3 * layer, inputs)
    multiply(inputs, rows, attention.project, layer, projected)
    for row in range(rows):
        slots = written.slots[first + row, : written.length]
        slot = np.uint64(slots[written.length - 1])
        for i in range(width):
            cache[slot, np.uint64(i)] = projected[row, query_width + i]
        attend_to_slots(projected[row], heads, cache, slots, scores, attended[row])
    multiply(attended, rows, attention.join, layer, output)
    add_output(states, rows, output, norms, 3 * layer)


@compiled
def _attend_to_memory(
    states: Floats, sentences: Indices, memory: Memory, cross: CrossAttentionProducts, layer: int, norms: Norms
) -> None:
    """Applies attention to the source."""
    heads, rows = cross.heads, states.shape[0]
    inputs = np.empty(states.shape, np.float32)
    queries = np.empty((rows, cross.project.bias.shape[1]), np.float32)
    attended = np.empty((rows, heads.heads * heads.d_v), np.float32)
    output = np.empty((rows, cross.join.bias.shape[1]), np.float32)
    sublayer_input(states, rows, norms, 3 * layer + 1, inputs)
    multiply(inputs, rows, cross.project, layer, queries)
    first = FIRST_INDEX
    while first < rows:  # rows of a sentence are side by side
        sentence, last = sentences[first], first + 1
        while last < rows and sentences[last] == sentence:
            last += 1
        keys, values = memory.keys[layer, sentence], memory.values[layer, sentence]
        attend(queries, first, last - first, heads, keys, values, memory.lengths[sentence], attended)
        first = last
    multiply(attended, rows, cross.join, layer, output)
    add_output(states, rows, output, norms, 3 * layer + 1)


@inlined
def decode_tokens(states: Floats, sentences: Indices, written: Written, memory: Memory, decoder: Decoder) -> None:
    """Applies the decoder's layers to one new token of each row, the last of `written`; rows have their `sentences`."""
    rows = states.shape[0]
    for layer in range(decoder.network.inner.weight.shape[0]):
        for at in range(0, rows, ROWS_AT_ONCE):
            part, their_sentences = states[at : at + ROWS_AT_ONCE], sentences[at : at + ROWS_AT_ONCE]
            _attend_to_written(part, written, at, decoder.attention, layer, decoder.norms)
            _attend_to_memory(part, their_sentences, memory, decoder.cross, layer, decoder.norms)
            feed_forward(part, part.shape[0], decoder.network, layer, decoder.norms, 3 * layer + 2)
    last_norm(states, decoder.norms)
