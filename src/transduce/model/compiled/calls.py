"""The compiled functions that Python calls: encoding sentences, and a step of their decoding."""

import numpy as np

from transduce.model.compiled.compilation import cached
from transduce.model.compiled.layers import (
    ROWS_AT_ONCE,
    Indices,
    Memory,
    Written,
    decode_tokens,
    encode_sentences,
)
from transduce.model.compiled.products import multiply
from transduce.model.compiled.rows import FOLDS, Floats, best_of_row, log_softmax
from transduce.model.compiled.weights import WeightsHandle

READ_OUT_AT_ONCE = 64  # rows for which the embeddings are read from memory once


@cached
def encode(states: Floats, starts: Indices, ends: Indices, handle: WeightsHandle, memory: Memory) -> None:
    """Encodes sentences whose embedded tokens are `states`, one after another, some rows at a time."""
    weights, first = handle.weights, 0
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
    banned: Indices,
    best: Floats,
    tokens: Indices,
) -> None:
    """Steps by the token `last` of each row, and writes log-probabilities of all next tokens, or of the best.

    `position` is the encoding of the tokens' position. All are [rows vocabulary]; the best are [rows count], in order,
    and not `banned`. What is not asked for has no columns.
    """
    weights, states = handle.weights, np.empty((last.shape[0], position.shape[0]), np.float32)
    for row in range(last.shape[0]):
        factor = np.float32(0) if last[row] == weights.embedding.blank else weights.embedding.scale
        for i in range(position.shape[0]):
            states[row, i] = position[i] + factor * weights.embedding.vectors[last[row], i]
    decode_tokens(states, sentences, written, memory, weights.decoder)
    logits = np.empty((min(READ_OUT_AT_ONCE, states.shape[0]), weights.readout.bias.shape[1]), np.float32)
    maxima = np.empty((weights.tokens + FOLDS - 1) // FOLDS, np.float32)
    for at in range(0, states.shape[0], READ_OUT_AT_ONCE):
        count = min(READ_OUT_AT_ONCE, states.shape[0] - at)
        multiply(states[at:], count, weights.readout, 0, logits)
        for row in range(count):
            if best.shape[1]:
                best_of_row(logits[row, : weights.tokens], banned, maxima, best[at + row], tokens[at + row])
            else:
                log_softmax(logits[row, : weights.tokens], log_probabilities[at + row])
