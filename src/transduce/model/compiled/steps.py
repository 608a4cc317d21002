"""The compiled functions that Python calls to encode sentences and to decode a step, and the parts of a step.

`next_states` and `write_best_tokens` together are the step of a beam search, which never writes the log-probabilities
of all tokens. The logits of up to 64 rows are reduced to the few best tokens of each row while they are in the
processor's cache; the logits of the next rows then overwrite them.
"""

from typing import Any

import numpy as np

from transduce.model.compiled.compilation import FIRST_INDEX, cached, compiled
from transduce.model.compiled.layers import ROWS_AT_ONCE, Indices, Memory, Written, decode_tokens, encode_sentences
from transduce.model.compiled.products import Product, multiply
from transduce.model.compiled.rows import FOLDS, Floats, best_of_row, log_softmax
from transduce.model.compiled.weights import Decoder, TokenTable, WeightsHandle

READ_OUT_AT_ONCE = 64  # rows for which the embeddings are read from memory only once


@compiled
def next_states(
    last: Indices,
    position: Floats,
    sentences: Indices,
    written: Written,
    memory: Memory,
    embedding: TokenTable,
    decoder: Decoder,
) -> Floats:
    """Computes the states after the token `last` of each row; `position` is the encoding of the tokens' position."""
    states = np.empty((last.shape[0], position.shape[0]), np.float32)
    for row in range(last.shape[0]):
        factor = np.float32(0) if last[row] == embedding.blank else embedding.scale
        for i in range(position.shape[0]):
            states[row, i] = position[i] + factor * embedding.vectors[last[row], i]
    decode_tokens(states, sentences, written, memory, decoder)
    return states


@compiled
def write_log_probabilities(states: Floats, readout: Product, tokens: int, out: Floats) -> None:
    """Writes the log-probabilities [rows tokens] of all `tokens` possible next tokens after each state."""
    logits = np.empty((min(READ_OUT_AT_ONCE, states.shape[0]), readout.bias.shape[1]), np.float32)
    for at in range(0, states.shape[0], READ_OUT_AT_ONCE):
        count = min(READ_OUT_AT_ONCE, states.shape[0] - at)
        multiply(states[at:], count, readout, 0, logits)
        for row in range(count):
            log_softmax(logits[row, :tokens], out[at + row])


@compiled
def write_best_tokens(
    states: Floats, readout: Product, tokens: int, banned: Any, best: Floats, best_tokens: Indices
) -> None:
    """Writes the most probable tokens after each state that are not `banned`, best first, and their log-probabilities.

    Both outputs are [rows count]; the model has `tokens` tokens.
    """
    logits = np.empty((min(READ_OUT_AT_ONCE, states.shape[0]), readout.bias.shape[1]), np.float32)
    maxima = np.empty((tokens + FOLDS - 1) // FOLDS, np.float32)
    for at in range(0, states.shape[0], READ_OUT_AT_ONCE):
        count = min(READ_OUT_AT_ONCE, states.shape[0] - at)
        multiply(states[at:], count, readout, 0, logits)
        for row in range(count):
            best_of_row(logits[row, :tokens], banned, maxima, best[at + row], best_tokens[at + row])


@cached
def encode(states: Floats, starts: Indices, ends: Indices, handle: WeightsHandle, memory: Memory) -> None:
    """Encodes sentences whose embedded tokens are concatenated in `states`, about `ROWS_AT_ONCE` rows at a time."""
    weights, first = handle.weights, FIRST_INDEX
    while first < ends.shape[0]:
        last = first + 1
        while last < ends.shape[0] and ends[last] - starts[first] <= ROWS_AT_ONCE:
            last += 1
        encode_sentences(
            states, starts[first:last], ends[first:last], weights.encoder, weights.decoder.cross, memory, first
        )
        first = last


@cached
def decode(
    last: Indices,
    position: Floats,
    sentences: Indices,
    written: Written,
    memory: Memory,
    handle: WeightsHandle,
    log_probabilities: Floats,
) -> None:
    """Appends the token `last` of each row and writes the log-probabilities of the next token [rows vocabulary].

    `last` is the last token of `written`; `position` is the encoding of the tokens' position.
    """
    weights = handle.weights
    states = next_states(last, position, sentences, written, memory, weights.embedding, weights.decoder)
    write_log_probabilities(states, weights.readout, weights.tokens, log_probabilities)
