"""Bulk translation of texts: translates the missing shards and writes each output when its last shard is done."""

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from pathlib import Path

from transduce.bulk.finished_shards import FinishedShards, PairFilter
from transduce.bulk.shard_translator import ShardResult, TranslationJob
from transduce.bulk.shards import Shard, ShardedText
from transduce.runtime.progress import ProgressRate
from transduce.storage.locks import exclusive_lock

_log = logging.getLogger("transduce")

ShardEngine = Callable[[TranslationJob, Sequence[Shard]], Generator[tuple[Shard, ShardResult]]]
"""Translates shards and yields each when it is done, in any order."""


PROGRESS_SECONDS = 10.0  # least time between two reports of progress
NAMED_FAULTS = 20  # most lines that could not be translated and are reported one by one


def translate_texts(
    job: TranslationJob,
    texts: Sequence[ShardedText],
    out: Path,
    engine: ShardEngine,
    pairs: PairFilter | None = None,
) -> None:
    """Translates `texts` and writes their outputs; the folder `out`.bulk keeps finished shards until all are finished.

    The same call resumes a call that was stopped. With `pairs`, a text has an output of pairs, of which `pairs` leaves
    out some, among them lines that could not be translated. Raises ValueError where an output exists that this job did
    not write, or another process has locked the folder. Raises RuntimeError, after writing the outputs, where lines
    could not be translated.
    """
    folder = out.with_name(f"{out.name}.bulk")
    with exclusive_lock(folder, "translation"):
        finished = FinishedShards(folder, job.origin, pairs)
        unfinished = [text for text in texts if not finished.has_output(text)]
        if unfinished:
            _translate_missing(job, unfinished, finished, engine)
        else:
            _log.info(f"{out} is finished")
        finished.remove_shards()
        faults = [f"{text.source}: line {number} {fault}" for text in texts for number, fault in finished.faults(text)]
        for fault in faults[:NAMED_FAULTS]:
            _log.info(fault)
        if pairs is None and faults:
            raise RuntimeError(f"{len(faults):,} lines could not be translated and are empty in the output")
        for text in texts if pairs is not None else ():
            counts = finished.counts(text)
            left_out = [f"{count:,} {reason}" for reason, count in counts.items() if reason != "pairs"]
            _log.info(f"{counts.get('pairs', 0):,} pairs; left out: {', '.join(left_out) or 'none'}")


def _translate_missing(
    job: TranslationJob, texts: Sequence[ShardedText], finished: FinishedShards, engine: ShardEngine
) -> None:
    """Translates the missing shards, and writes each output after its last shard."""
    missing_of = {text.out: [shard for shard in text.shards if finished.load(shard) is None] for text in texts}
    missing = [shard for shards in missing_of.values() for shard in shards]
    shards = [shard for text in texts for shard in text.shards]
    done = len(shards) - len(missing)
    _log.info(f"shards: {len(shards):,}; done before: {done:,}; lines in all: {sum(text.lines for text in texts):,}")
    saved = {path.name for path in finished.shards.iterdir() if not path.name.startswith(".")}
    expected = {finished.path(shard).name for shard in shards}
    if damaged := len(saved & expected) - done:
        _log.info(f"damaged shards, translated again: {damaged:,}")
    if unused := len(saved - expected):
        _log.info(f"shards of another text, model or option, not used and removed at the end: {unused:,}")
    for text in texts:
        if not missing_of[text.out]:
            finished.write_output(text)
    if not missing:
        return
    owners = {shard: text for text in texts for shard in missing_of[text.out]}
    remaining = {out: len(shards) for out, shards in missing_of.items()}
    lines, begun, translated = sum(shard.lines for shard in missing), time.monotonic(), 0
    pace: ProgressRate | None = None  # counts from the first finished shard, when the models are loaded
    try:
        with contextlib.closing(engine(job, missing)) as results:
            for shard, result in results:
                finished.save(shard, result)
                translated += 1
                if pace is None:
                    pace = ProgressRate(lines, shard.lines)
                else:
                    pace.done += shard.lines
                    if translated < len(missing) and pace.is_report_due(PROGRESS_SECONDS):
                        rate = f"{pace.rate:,.1f} lines/s{pace.time_left}"
                        _log.info(f"{translated:,} of {len(missing):,} shards, {rate}")
                text = owners[shard]
                remaining[text.out] -= 1
                if not remaining[text.out]:
                    finished.write_output(text)
    except BaseException:
        _log.info(f"stopped with {translated} of {len(missing)} shards done; the same command translates the others")
        raise
    assert not any(remaining.values()), "the engine left out a shard"
    duration = timedelta(seconds=round(time.monotonic() - begun))
    _log.info(f"{translated:,} of {len(missing):,} shards, {lines:,} lines, in {duration}")
