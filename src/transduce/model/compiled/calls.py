"""The compiled functions that Python calls: encoding sentences, and a step of their decoding."""

from transduce.model.compiled.compilation import FIRST_INDEX, cached
from transduce.model.compiled.layers import ROWS_AT_ONCE, Indices, Memory, Written, encode_sentences
from transduce.model.compiled.rows import Floats
from transduce.model.compiled.steps import next_states, write_log_probabilities
from transduce.model.compiled.weights import WeightsHandle


@cached
def encode(states: Floats, starts: Indices, ends: Indices, handle: WeightsHandle, memory: Memory) -> None:
    """Encodes sentences whose embedded tokens are `states`, one after another, some rows at a time."""
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
    """Steps by the token `last` of each row, the last one of `written`, and writes the log-probabilities of the next.

    They are [rows vocabulary]; `position` is the encoding of the tokens' position.
    """
    weights = handle.weights
    states = next_states(last, position, sentences, written, memory, weights.embedding, weights.decoder)
    write_log_probabilities(states, weights.readout, weights.tokens, log_probabilities)
