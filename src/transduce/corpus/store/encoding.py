"""Encodes the pairs of all corpora as tokens, in batches and on all cores. An interrupted encoding can be resumed.

If there are enough pairs, they are encoded by worker processes, while this process reads the corpora and writes the
tokens. After every `SAVE_EVERY` batches, the files are flushed to disk and their sizes are saved. To resume, the files
are truncated to the saved sizes, and encoding continues from there.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from transduce.corpus.data_spec import DataSpec
from transduce.corpus.learned_subwords import tag_ids
from transduce.corpus.pair_checks import Fault, NumberedPair, Report, check_pairs
from transduce.corpus.readers import read_byte_pairs
from transduce.corpus.store.token_store import FILES, SIDES, CorpusPart, Count, PackedSentences, TokenStoreWriter
from transduce.corpus.worker_pool import map_in_order
from transduce.inspection.line_checks import Check
from transduce.runtime.progress import ProgressRate, track
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.text.symbol_vocabulary import UNKNOWN
from transduce.text.token_vocabulary import TokenVocabulary

_log = logging.getLogger("transduce")

BATCH = 2_000
"""The maximum number of pairs that are encoded at a time."""

BATCH_BYTES = 1 << 21
"""The size in bytes at which a batch is full. The limit is low because encoding takes about 100 times as much memory.
"""

SAVE_EVERY = 100
"""The number of batches between two saved states."""

PAIRS_PER_PROCESS = 25_000
"""The number of pairs for each worker process, because starting one takes as long as encoding a few thousand pairs."""

PROGRESS_SECONDS = 10.0
"""The minimum number of seconds between two progress messages."""

STATE = "state.json"


class EncodingState(NamedTuple):
    """The state of an encoding, which is saved in `state.json` under the names of its fields."""

    report: Report
    corpus: Count = 0  # the index of the corpus being read
    read: Count = 0  # pairs read from it
    kept: Count = 0  # pairs kept from it
    longest: Count = 0  # tokens of the longest side
    parts: tuple[CorpusPart, ...] = ()  # the corpora before `corpus`
    sizes: tuple[Count, ...] = (0,) * len(FILES)  # bytes of each file

    @classmethod
    def load(cls, staging: Path) -> "EncodingState":
        """Reads the state of an interrupted encoding, and returns the initial state if there is no usable one."""
        try:
            state = TypeAdapter(cls).validate_json(read_regular_file(staging / STATE, MAX_JSON_BYTES), strict=True)
            for name, size in zip(FILES, state.sizes, strict=True):
                if (staging / name).stat().st_size < size:
                    return cls(Report())
        except (OSError, ValueError):
            return cls(Report())
        return state

    def save(self, staging: Path, files: Mapping[str, BinaryIO]) -> "EncodingState":
        """Flushes the files to disk, saves the state with their sizes, and returns the saved state."""
        for file in files.values():
            file.flush()
        state = self._replace(sizes=tuple(files[name].tell() for name in FILES))
        for name in FILES:
            flush_to_disk(staging / name)
        atomic_write_text(staging / STATE, TypeAdapter(EncodingState).dump_json(state).decode())
        return state


def encode_corpus(
    data: DataSpec,
    subwords: tuple[TokenVocabulary, TokenVocabulary],
    staging: Path,
    total: int,
    *,
    dropped: Sequence[Mapping[int, Check]],
    threads: int,
) -> tuple[EncodingState, np.dtype[Any]]:
    """Writes the `total` pairs of all corpora as tokens to the files of a store in `staging`.

    If the previous call was interrupted, it is resumed. The `dropped` pairs of each corpus are counted and left out. At
    most `threads` processes are used. Returns the final state and the dtype of the tokens.
    """
    dtype = np.dtype("<u2" if max(side.size for side in subwords) <= 1 << 16 else "<u4")
    state = EncodingState.load(staging)
    if state.report.read:
        _log.info(f"resuming after {state.report.read:,} pairs")
    pace = ProgressRate(total, state.report.read)
    processes = min(threads, (total - state.report.read) // PAIRS_PER_PROCESS)
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {name: stack.enter_context((staging / name).open("ab")) for name in FILES}
        for file, size in zip(files.values(), state.sizes, strict=True):
            file.seek(file.truncate(size))
        writer = TokenStoreWriter(files, dtype)
        encode = partial(_encode_batch, data, subwords, dtype)
        progress = stack.enter_context(track("encoding", total))
        batches = stack.enter_context(closing(map_in_order(encode, _batches(data, state, dropped), processes)))
        for count, batch in enumerate(batches, start=1):
            state = _append_batch(_advance(state, batch.corpus, data), batch, writer)
            pace.done = state.report.read
            progress.update(pace.done)
            if pace.is_report_due(PROGRESS_SECONDS):
                _log.info(f"{pace.done:,} of {total:,} pairs, {pace.rate:,.0f} a second{pace.time_left}")
            if count % SAVE_EVERY == 0:
                state = state.save(staging, files)
        state = _advance(state, len(data.train), data).save(staging, files)
    return state, dtype


class PairBatch(NamedTuple):
    """Consecutive pairs from the corpus with the index `corpus`, including pairs that will be dropped."""

    corpus: int
    pairs: list[NumberedPair]
    dropped: dict[int, Check]


def _batches(data: DataSpec, state: EncodingState, dropped: Sequence[Mapping[int, Check]]) -> Iterator[PairBatch]:
    """Yields the pairs of all corpora in batches, beginning with the first pair that `state` does not include."""
    for index, corpus in enumerate(data.train[state.corpus :], start=state.corpus):
        read = state.read if index == state.corpus else 0
        pairs = islice(enumerate(read_byte_pairs(corpus), start=1), read, None)
        while batch := _take_batch(pairs):
            numbers = dropped[index]
            yield PairBatch(index, batch, {number: numbers[number] for number, _ in batch if number in numbers})


def _take_batch(pairs: Iterator[NumberedPair]) -> list[NumberedPair]:
    """Returns the next `BATCH` pairs, or fewer if they reach `BATCH_BYTES`.

    Returns an empty list at the end of the corpus.
    """
    batch, size = [], 0
    for pair in islice(pairs, BATCH):
        batch.append(pair)
        size += sum(map(len, pair[1]))
        if size >= BATCH_BYTES:
            break
    return batch


def _advance(state: EncodingState, corpus: int, data: DataSpec) -> EncodingState:
    """Advances the state to the corpus with the index `corpus`, recording all corpora before it as finished."""
    while state.corpus < corpus:
        part = CorpusPart(state.kept, data.train[state.corpus].weight)
        state = state._replace(corpus=state.corpus + 1, read=0, kept=0, parts=(*state.parts, part))
    return state


class EncodedBatch(NamedTuple):
    """The sentences of a `PairBatch` that were kept, encoded and packed for each side, and the report on the batch."""

    corpus: int
    report: Report
    sides: tuple[PackedSentences, PackedSentences]


def _encode_batch(
    data: DataSpec,
    subwords: tuple[TokenVocabulary, TokenVocabulary],
    dtype: np.dtype[Any],
    batch: PairBatch,
) -> EncodedBatch:
    """Checks the pairs of a batch and encodes the pairs that have no fault."""
    report = Report()
    corpus = data.train[batch.corpus]
    pairs = list(check_pairs(batch.pairs, corpus, report, data.max_length, batch.dropped))
    tags = tag_ids(data, corpus, subwords[0])
    source = subwords[0].encode([pair.source for pair in pairs])
    target = subwords[1].encode([pair.target for pair in pairs])
    kept_rows, is_parser = [], data.tree_linearisation is not None
    for row, pair in enumerate(pairs):
        fault = _fault_of_length(len(source[row]), len(target[row]), data, len(tags))
        if fault is None and is_parser and UNKNOWN in target[row]:
            fault = Fault.UNKNOWN
        if fault is not None:
            report.note(fault, pair.place)
            continue
        kept_rows.append(row)
        if pair.has_markup:
            report.note(Fault.MARKUP, pair.place)
    report.kept = len(kept_rows)
    sources, targets = [[*tags, *source[row]] for row in kept_rows], [target[row] for row in kept_rows]
    left, right = (PackedSentences.of(side, dtype) for side in (sources, targets))
    return EncodedBatch(batch.corpus, report, (left, right))


def _append_batch(state: EncodingState, batch: EncodedBatch, writer: TokenStoreWriter) -> EncodingState:
    """Writes a batch to the files and returns the updated state."""
    longest = state.longest
    for side, sentences in zip(SIDES, batch.sides, strict=True):
        writer.append(side, sentences)
        longest = max(longest, int(sentences.lengths.max(initial=0)))
    state.report.add(batch.report)
    read, kept = state.read + batch.report.read, state.kept + batch.report.kept
    return state._replace(read=read, kept=kept, longest=longest)


def _fault_of_length(source: int, target: int, data: DataSpec, tags: int) -> Fault | None:
    """Returns the fault of a pair whose sides have too many tokens or very different lengths, or None if they do not.

    `tags` is the number of tags before the source. Tags count towards the length but not towards the ratio. EOS counts
    towards the ratio but not towards the length, so that the ratio is lenient with very short pairs.
    """
    if max(source + tags, target) > data.max_length:
        return Fault.LONG
    if (
        data.ratio is not None
        and data.tree_linearisation is None
        and max(source, target) + 1 > data.ratio * (min(source, target) + 1)
    ):
        return Fault.RATIO
    return None
