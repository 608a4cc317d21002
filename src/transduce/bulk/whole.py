"""The whole of a translation in bulk: what is missing is translated, what is whole is put in its place."""

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from pathlib import Path

from transduce.bulk.job import Job, ShardResult
from transduce.bulk.kept import FinishedShards
from transduce.bulk.shards import Shard, Text
from transduce.runtime.rate import ProgressRate
from transduce.storage.locks import exclusive_lock

__all__ = ["Engine", "translate_all"]

Engine = Callable[[Job, Sequence[Shard]], Generator[tuple[Shard, ShardResult]]]
"""Translates shards, and gives each back as soon as it is done, in any order."""

Say = Callable[[str], None]

OFTEN = 10.0  # seconds from one word on how far it is to the next, at least
NAMED = 20  # lines that could not be translated and are named, at most


def translate_all(job: Job, texts: Sequence[Text], out: Path, engine: Engine, say: Say) -> None:
    """Translates `texts` to where they are to be; finished shards wait beside `out` until all are there.

    The same call goes on where an earlier one was stopped. `ValueError` where outputs are there already that are not
    these, or another call is at work on them; `RuntimeError` where lines could not be translated: the output is there.
    """
    folder = out.with_name(f"{out.name}.bulk")
    with exclusive_lock(folder, "translation"):
        kept = FinishedShards(folder, job.origin)
        waiting = [text for text in texts if not kept.is_placed(text)]
        if waiting:
            _go_on(job, waiting, kept, engine, say)
        else:
            say(f"{out} is finished")
        kept.drop_shards()
        _tell_faults(kept, texts, say)


def _go_on(job: Job, texts: Sequence[Text], kept: FinishedShards, engine: Engine, say: Say) -> None:
    """Has the engine translate the shards that are missing, and places each text with its last."""
    missing = {text.out: [shard for shard in text.shards if kept.outcome(shard) is None] for text in texts}
    todo = [shard for shards in missing.values() for shard in shards]
    _tell_beginning(kept, texts, todo, say)
    for text in texts:
        if not missing[text.out]:
            kept.place(text)
    if not todo:
        return
    owners = {shard: text for text in texts for shard in missing[text.out]}
    left = {out: len(shards) for out, shards in missing.items()}
    progress = _Progress(todo, say)
    try:
        with contextlib.closing(engine(job, todo)) as outcomes:
            for shard, outcome in outcomes:
                kept.put(shard, outcome)
                progress.count(shard)
                text = owners[shard]
                left[text.out] -= 1
                if not left[text.out]:
                    kept.place(text)
    except BaseException:
        say(f"stopped with {progress.shards} of {len(todo)} shards done; the same command goes on with the others")
        raise
    assert not any(left.values()), "the engine has left out a shard"
    progress.end()


class _Progress:
    """How far it is; the clock of its pace starts with the first shard, when all is loaded."""

    def __init__(self, todo: Sequence[Shard], say: Say) -> None:
        self.shards, self._all, self._say = 0, len(todo), say
        self._lines = sum(shard.source.lines for shard in todo)
        self._begun = time.monotonic()
        self._pace: ProgressRate | None = None

    def count(self, shard: Shard) -> None:
        """One more."""
        self.shards += 1
        if self._pace is None:
            self._pace = ProgressRate(self._lines, shard.source.lines)
            return
        self._pace.done += shard.source.lines
        if self.shards < self._all and self._pace.told(OFTEN):
            self._say(f"{self.shards:,} of {self._all:,} shards, {self._pace.rate:,.1f} lines/s{self._pace.left}")

    def end(self) -> None:
        """Says that it is done."""
        took = timedelta(seconds=round(time.monotonic() - self._begun))
        self._say(f"{self.shards:,} of {self._all:,} shards, {self._lines:,} lines, in {took}")


def _tell_beginning(kept: FinishedShards, texts: Sequence[Text], todo: Sequence[Shard], say: Say) -> None:
    """What there is to do, and what was done before."""
    shards = [shard for text in texts for shard in text.shards]
    found = {path.name for path in kept.shards.iterdir() if not path.name.startswith(".")}
    known = {kept.path(shard).name for shard in shards}
    done = len(shards) - len(todo)
    say(f"shards: {len(shards):,}; done before: {done:,}; lines in all: {sum(text.lines for text in texts):,}")
    if damaged := len(found & known) - done:
        say(f"damaged shards, translated again: {damaged:,}")
    if other := len(found - known):
        say(f"shards of other text, models or options, not used and kept until all is done: {other:,}")


def _tell_faults(kept: FinishedShards, texts: Sequence[Text], say: Say) -> None:
    """Names the lines that could not be translated; a `RuntimeError` where there are any."""
    found = [f"{text.source}: line {number} {why}" for text in texts for number, why in kept.faults(text)]
    for fault in found[:NAMED]:
        say(fault)
    if found:
        raise RuntimeError(f"{len(found):,} lines could not be translated and are empty in the output")
