"""Cutting: the pairs of all corpora as ids, a batch at a time, on all cores; an interrupted one is gone on with.

Several processes cut where there are many pairs, and this one reads and writes. Every so often what is written is
flushed and counted; what came after that is written again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from transduce.corpus.checks import Fault, Report, name_of, readable
from transduce.corpus.data import DataSpec
from transduce.corpus.readers import bytes_of_pairs
from transduce.corpus.token_store import FILES, SIDES, CorpusPart, PackedSentences, TokenStoreWriter
from transduce.corpus.worker_pool import map_in_order
from transduce.runtime.progress import track
from transduce.runtime.rate import ProgressRate
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.text.subwords import Subwords

__all__ = ["STATE", "EncodingState", "encode_corpus"]

BATCH = 2_000
"""Pairs that are cut into subwords at a time."""

SETTLED = 100
"""Batches after which what is written is flushed and counted."""

SHARE = 25_000
"""Pairs that a process is worth starting for, which takes as long as some thousands."""

STATE = "state.json"

OFTEN = 10.0
"""Seconds from one word on how far it is to the next, at least."""

Numbered = tuple[int, tuple[bytes, bytes]]


class EncodingState(NamedTuple):
    """What is written down for good: of so many pairs, so many bytes in each file."""

    report: Report
    corpus: int = 0  # which of the recipe's is being read
    read: int = 0  # pairs of it
    kept: int = 0  # of these
    longest: int = 0  # ids of a side
    parts: tuple[CorpusPart, ...] = ()  # the corpora before it
    sizes: tuple[int, ...] = (0,) * len(FILES)

    @classmethod
    def of(cls, making: Path) -> "EncodingState":
        """As an interrupted process left it; the beginning where files are damaged."""
        path = making / STATE
        if not path.exists():
            return cls(Report())
        try:
            values = json.loads(path.read_text("utf-8"))
            for name, size in zip(FILES, values["sizes"], strict=True):
                if not (making / name).is_file() or (making / name).stat().st_size < size:
                    return cls(Report())
            parts = tuple(CorpusPart(*part) for part in values.pop("parts"))
            return cls(Report.from_dictionary(values.pop("report")), parts=parts, **values)
        except (ValueError, KeyError, TypeError):
            return cls(Report())

    def settle(self, making: Path, files: Mapping[str, BinaryIO]) -> "EncodingState":
        """Sees onto the disk what was written, and then that it was."""
        for file in files.values():
            file.flush()
        settled = self._replace(sizes=tuple(files[name].tell() for name in FILES))
        for name in FILES:
            flush_to_disk(making / name)
        atomic_write_text(making / STATE, json.dumps({**settled._asdict(), "report": self.report.as_dictionary()}))
        return settled


def encode_corpus(
    data: DataSpec,
    subwords: tuple[Subwords, Subwords],
    making: Path,
    total: int,
    say: Callable[[str], None],
    *,
    threads: int,
) -> tuple[EncodingState, np.dtype[Any]]:
    """Writes the pairs of all corpora, of which there are `total`, into the files of a store in `making`.

    `threads` are the cores to be used, where there are pairs enough for a process on each. Gives what was written, and
    the type of the ids. The same call goes on where one was interrupted.
    """
    dtype = np.dtype("<u2" if max(side.size for side in subwords) <= 1 << 16 else "<u4")
    state = EncodingState.of(making)
    if state.report.read:
        say(f"going on after {state.report.read:,} pairs")
    pace = ProgressRate(total, state.report.read)
    processes = min(threads, (total - state.report.read) // SHARE)
    with ExitStack() as stack:
        files = {name: stack.enter_context((making / name).open("ab")) for name in FILES}
        for file, size in zip(files.values(), state.sizes, strict=True):
            file.seek(file.truncate(size))
        writer = TokenStoreWriter(files, dtype)
        work = partial(_cut, data, subwords, dtype)
        progress = stack.enter_context(track("encoding", total))
        batches = stack.enter_context(closing(map_in_order(work, _batches(data, state), processes)))
        for count, done in enumerate(batches, start=1):
            state = _written(_at(done.corpus, state, data), done, writer)
            pace.done = state.report.read
            progress.update(pace.done)
            if pace.is_report_due(OFTEN):
                say(f"{pace.done:,} of {total:,} pairs, {pace.rate:,.0f} a second{pace.time_left}")
            if count % SETTLED == 0:
                state = state.settle(making, files)
        state = _at(len(data.train), state, data).settle(making, files)
    return state, dtype


class PairBatch(NamedTuple):
    """Neighbouring pairs of one of the recipe's corpora."""

    corpus: int
    pairs: list[Numbered]


def _batches(data: DataSpec, state: EncodingState) -> Iterator[PairBatch]:
    """All corpora from where a state stands."""
    for number, corpus in enumerate(data.train[state.corpus :], start=state.corpus):
        read = state.read if number == state.corpus else 0
        pairs = islice(enumerate(bytes_of_pairs(corpus), start=1), read, None)
        while batch := list(islice(pairs, BATCH)):
            yield PairBatch(number, batch)


def _at(corpus: int, state: EncodingState, data: DataSpec) -> EncodingState:
    """Before the first pair of a corpus, or where it stands in it: those before it are done."""
    while state.corpus < corpus:
        part = CorpusPart(state.kept, data.train[state.corpus].weight)
        state = state._replace(corpus=state.corpus + 1, read=0, kept=0, parts=(*state.parts, part))
    return state


class EncodedBatch(NamedTuple):
    """What came of a batch: the kept sentences of either side."""

    corpus: int
    report: Report
    sides: tuple[PackedSentences, PackedSentences]


def _cut(data: DataSpec, subwords: tuple[Subwords, Subwords], dtype: np.dtype[Any], batch: PairBatch) -> EncodedBatch:
    """Checks a batch and cuts what is left."""
    report = Report()
    pairs = list(readable(batch.pairs, name_of(data.train[batch.corpus]), report, data.longest))
    source, target = (side.encode([pair[place] for pair in pairs]) for place, side in enumerate(subwords, start=1))
    kept = []
    for number, (place, _, _) in enumerate(pairs):
        if fault := _fault_of_length(len(source[number]), len(target[number]), data):
            report.note(fault, place)
        else:
            kept.append(number)
    report.kept = len(kept)
    left, right = (PackedSentences.of([side[number] for number in kept], dtype) for side in (source, target))
    return EncodedBatch(batch.corpus, report, (left, right))


def _written(state: EncodingState, done: EncodedBatch, writer: TokenStoreWriter) -> EncodingState:
    """After one more batch."""
    longest = state.longest
    for side, sentences in zip(SIDES, done.sides):
        writer.append(side, sentences)
        longest = max(longest, int(sentences.lengths.max(initial=0)))
    state.report.add(done.report)
    read, kept = state.read + done.report.read, state.kept + done.report.kept
    return state._replace(read=read, kept=kept, longest=longest)


def _fault_of_length(source: int, target: int, data: DataSpec) -> Fault | None:
    """Lengths without and proportions with the end symbol, which is gentle with the shortest pairs."""
    if max(source, target) > data.longest:
        return Fault.LONG
    if data.ratio is not None and max(source, target) + 1 > data.ratio * (min(source, target) + 1):
        return Fault.PROPORTION
    return None
