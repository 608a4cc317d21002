"""The compiled functions `encode` and `decode`, which Python calls, and the functions that make up a decoding step.

Beam search calls `next_states` and `write_best_tokens` for each step, and never writes the log-probabilities of all
tokens. Instead, the logits of up to 64 rows are reduced to the few best tokens of each row while they are still in the
processor's cache, and then overwritten by the logits of the next rows.
"""

from typing import Any

import numpy as np

from transduce.model.compiled.compilation import FIRST_INDEX, cached, compiled
from transduce.model.compiled.layers import ROWS_AT_ONCE, Indices, Memory, Written, decode_tokens, encode_sentences
from transduce.model.compiled.products import Product, multiply
from transduce.model.compiled.rows import FOLDS, Floats, best_of_row, log_softmax
from transduce.model.compiled.weights import Decoder, TokenTable, WeightsHandle

READ_OUT_AT_ONCE = 64  # number of rows for which the projection to the vocabulary is read from memory only once


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
    """Computes the decoder's hidden states after the token `last` of each row.

    `position` is the positional encoding of these tokens, which are all at the same position.
    """
    states = np.empty((last.shape[0], position.shape[0]), np.float32)
    for row in range(last.shape[0]):
        factor = np.float32(0) if last[row] == embedding.blank else embedding.scale
        for i in range(position.shape[0]):
            states[row, i] = position[i] + factor * embedding.vectors[last[row], i]
    decode_tokens(states, sentences, written, memory, decoder)
    return states


@compiled
def write_log_probabilities(states: Floats, readout: Product, tokens: int, out: Floats) -> None:
    """Writes the log-probabilities of the token that follows each hidden state to `out` [rows tokens].

    `tokens` is the size of the vocabulary.
    """
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
    """Writes the most probable tokens after each hidden state that are not `banned`, best first.

    The tokens are written to `best_tokens`, and their log-probabilities to `best`; both have the shape [rows count].
    `tokens` is the size of the vocabulary.
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
    """Encodes sentences and writes the keys and values that the decoder attends to into `memory`.

    The embedded tokens of all sentences are concatenated in `states`. They are processed in groups of whole sentences
    with up to `ROWS_AT_ONCE` rows; a longer sentence is a group of its own.
    """
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
    """Processes the token `last` of each row, and writes the log-probabilities of the next token [rows vocabulary].

    `last` must also be the last token of each row in `written`. `position` is the positional encoding of these tokens.
    """
    weights = handle.weights
    states = next_states(last, position, sentences, written, memory, weights.embedding, weights.decoder)
    write_log_probabilities(states, weights.readout, weights.tokens, log_probabilities)
