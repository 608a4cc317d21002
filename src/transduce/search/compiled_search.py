"""Beam search and greedy search in compiled code on a CPU, with the same results as `beam_search` and `greedy_search`.

With a compiled stepper, a single call performs several steps without holding the GIL. Each step runs the model and then
updates the hypotheses. With any other stepper, only the update of the hypotheses is compiled. If several threads
search, each for its own sentences, they run like this:

    thread 1   check │ step, advance, step, advance, … │ check │ step, advance, …
    thread 2      check │ step, advance, step, advance, … │ check │ …
                          one call of `_take_steps`: 1 to 16 steps, at most about 20 ms, without the GIL

Several steps share a call because a step takes tens of microseconds, and returning to Python and torch after each step
would take as long again. The search can be stopped, and the key-value cache can grow, only between two calls.

The cache never moves keys and values. Each token gets the next free slot when the model processes it, and a table
records the slots of each row's tokens. After three steps with a beam of 2, in which "the cat" and "the dog" have won
against "a cat", the slots are:

    slot       0     1     2     3     4
    token     <s>   the    a    cat   dog
    row 0     "the cat"   slots 0 1 3
    row 1     "the dog"   slots 0 1 4

When a hypothesis is continued, its row of the table is copied. Slot 2 stays unused until `SlotCache.make_room` drops
the slots that no row uses.
"""

import math
import time
from typing import Any, NamedTuple

import numpy as np
import torch

from transduce.model.compiled.attention import Slots
from transduce.model.compiled.compilation import cached_exact
from transduce.model.compiled.layers import Indices, Memory, Written
from transduce.model.compiled.rows import Floats
from transduce.model.compiled.stepper import CompiledStepper
from transduce.model.compiled.steps import next_states, write_best_tokens
from transduce.model.compiled.weights import WeightsHandle
from transduce.search.beam import Decoding, Hypothesis
from transduce.search.cancellation import StopCheck, StoppableStepper
from transduce.search.compiled_beam import Beams, SearchLimits, advance
from transduce.search.stepper import SearchProblem, Stepper, best_tokens

MOST_STEPS, SECONDS = 16, 0.02  # limits of one call: a search can be stopped only between two calls


class LiveRows(NamedTuple):
    """The live hypotheses, one in each row.

    The arrays contain the place and the last token of each row, and the slots of all its tokens [rows max_length].
    """

    places: Indices
    last: Indices
    slots: Slots


def is_wholly_compiled(stepper: Stepper) -> bool:
    """Returns True if the stepper is compiled, or is a `StoppableStepper` around a compiled stepper."""
    return isinstance(_unwrapped(stepper)[0], CompiledStepper)


def _unwrapped(stepper: Stepper) -> tuple[Stepper, StopCheck]:
    """Returns the stepper inside a `StoppableStepper`, and its check.

    Any other stepper is returned unchanged, with a check that never stops the search.
    """
    return (stepper.inner, stepper.check) if isinstance(stepper, StoppableStepper) else (stepper, lambda: None)


def compiled_beam_search(
    stepper: Stepper, problem: SearchProblem, decoding: Decoding, n_best: int = 1
) -> list[list[Hypothesis]]:
    """Returns the `n_best` hypotheses of each sentence, with the same results as `beam.beam_search`."""
    beam, sentences = decoding.beam, len(problem.source)
    beams = Beams.start(sentences, beam, min(n_best, beam), problem.max_length)
    margin = math.inf if decoding.margin is None else decoding.margin
    limits = SearchLimits.of(problem.bounds.numpy(), decoding.length_penalty, margin)
    search = _search_compiled if is_wholly_compiled(stepper) else _search_by_steps
    # At most one continuation of each hypothesis ends, so at least `beam` of twice as many continuations do not.
    search(stepper, problem, beams, limits, 2 * beam)
    return [beams.hypotheses(sentence) for sentence in range(sentences)]


def compiled_greedy_search(stepper: Stepper, problem: SearchProblem) -> list[Hypothesis]:
    """Returns one hypothesis for each sentence, with the same results as `greedy_search`.

    `is_wholly_compiled` must be true of `stepper`. The search is a beam search with a beam of 1 that considers only one
    continuation, so that no live hypothesis is left once that continuation ends.
    """
    sentences = len(problem.source)
    beams = Beams.start(sentences, 1, 1, problem.max_length)
    _search_compiled(stepper, problem, beams, SearchLimits.of(problem.bounds.numpy(), 0.0, math.inf), 1)
    return [beams.hypotheses(sentence)[0] for sentence in range(sentences)]


def _search_by_steps(stepper: Any, problem: SearchProblem, beams: Beams, limits: SearchLimits, candidates: int) -> None:
    """Searches with any stepper, and uses compiled code only to update the hypotheses."""
    sentences, beam = beams.live.shape
    places, (next_places, rows) = np.arange(sentences) * beam, np.empty((2, sentences * beam), np.int64)
    last, state = np.full(sentences, problem.begin), stepper.start(problem.source, problem.visible, problem.max_length)
    for length in range(1, problem.max_length + 1):
        banned = problem.banned_at(length - 1)
        best = best_tokens(stepper, torch.from_numpy(last).unsqueeze(1), state, candidates, banned)
        count = advance(
            beams, places, *map(np.ascontiguousarray, (best.log_probabilities, best.tokens)), problem.end, length,
            candidates, limits, next_places, rows,
        )  # fmt: skip
        if not count:
            break
        places, last = next_places[:count].copy(), beams.tokens[length - 1, next_places[:count]].astype(np.int64)
        state = best.state.pick(torch.from_numpy(rows[:count]))


def _search_compiled(
    stepper: Stepper, problem: SearchProblem, beams: Beams, limits: SearchLimits, candidates: int
) -> None:
    """Searches with a compiled stepper, and performs several steps in each call of `_take_steps`."""
    compiled, check = _unwrapped(stepper)
    assert isinstance(compiled, CompiledStepper)
    sentences, beam = beams.live.shape
    most = sentences * beam
    rows = LiveRows(np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, problem.max_length), np.int32))
    rows.places[:sentences], rows.last[:sentences] = np.arange(sentences) * beam, problem.begin
    state = stepper.start(problem.source, problem.visible, problem.max_length)
    cache, count, length, steps = state.cache, sentences, 0, 1  # the first call takes one step, which bans other tokens
    while count and length < problem.max_length:
        check()
        began, before = time.perf_counter(), length
        cache.make_room(rows.slots[:count], length)
        banned = np.array(problem.banned_at(length), np.int64)
        count, length, cache.used = _take_steps(
            beams, rows, count, length, min(steps, problem.max_length - length), cache.key_values, cache.used,
            state.positions, state.memory, compiled.handle, banned, problem.end, candidates, limits,
        )  # fmt: skip
        step_seconds = (time.perf_counter() - began) / (length - before)
        steps = max(1, min(MOST_STEPS, int(SECONDS / step_seconds)))


@cached_exact
def _take_steps(
    beams: Beams, rows: LiveRows, count: int, length: int, steps: int, key_values: Floats, used: int,
    positions: Floats, memory: Memory, handle: WeightsHandle, banned: Indices, end: int, candidates: int,
    limits: SearchLimits,
) -> tuple[int, int, int]:  # fmt: skip
    """Performs `steps` steps, or fewer if the cache becomes full or no hypothesis is live any longer.

    `count` is the number of live rows, `length` is the number of their tokens, and `used` is the number of slots in
    use. Returns the new values of these three.
    """
    weights, beam, most = handle.weights, beams.live.shape[1], rows.places.shape[0]
    width = min(candidates, weights.tokens - banned.shape[0])
    best, tokens = np.empty((most, width), np.float32), np.empty((most, width), np.int64)
    next_places, next_rows, sentences = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    next_slots = np.empty(rows.slots.shape, np.int32)
    for _ in range(steps):
        if count == 0 or used + count > key_values.shape[1]:
            break
        # 1. Assign a slot to the last token of each row.
        for row in range(count):
            rows.slots[row, length], sentences[row] = used + row, rows.places[row] // beam
        # 2. Run the model to compute the best next tokens of each row from its last token.
        written = Written(key_values, rows.slots[:count], length + 1)
        states = next_states(
            rows.last[:count], positions[length], sentences[:count], written, memory, weights.embedding, weights.decoder
        )
        write_best_tokens(states, weights.readout, weights.tokens, banned, best, tokens)
        # 3. Choose which rows are continued by which tokens.
        used, length = used + count, length + 1
        count = advance(
            beams, rows.places[:count], best, tokens, end, length, candidates, limits, next_places, next_rows
        )
        # 4. Update the table of slots. A row may be continued twice, so all rows are copied before any is overwritten.
        for row in range(count):
            next_slots[row, :length] = rows.slots[next_rows[row], :length]
        for row in range(count):
            rows.places[row], rows.last[row] = next_places[row], beams.tokens[length - 1, next_places[row]]
            rows.slots[row, :length] = next_slots[row, :length]
    return count, length, used
