"""Bulk translation of texts: translates the missing shards, and writes each output when its last shard is finished.

A `TranslationJob` specifies how every shard is translated, and a `ShardTranslator` translates shards in one process.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from transduce.bulk.finished_shards import FinishedShards, PairFilter
from transduce.bulk.shards import Shard, ShardedText, ShardResult
from transduce.model.int8 import LARGEST, largest_weight
from transduce.model_directory.manifest import fingerprint
from transduce.runtime.device import set_up_device
from transduce.runtime.progress import ProgressRate
from transduce.storage.locks import exclusive_lock
from transduce.translation.batching import LineTooLargeError
from transduce.translation.engine import TranslationPrecision, check_precision
from transduce.translation.output_format import OutputFormat
from transduce.translation.results import EMPTY
from transduce.translation.search_method import SearchMethod
from transduce.translation.source_request import SourceRequest
from transduce.translation.translator import BATCH_TOKENS, Translator

_log = logging.getLogger("transduce")


class TranslationJob(NamedTuple):
    """Specifies how every shard is translated: the models, the search method, the output format and the device."""

    runs: tuple[str, ...]
    fingerprints: tuple[str, ...]  # of the models
    method: SearchMethod
    output_format: OutputFormat = OutputFormat()
    precision: TranslationPrecision = "float32"
    batch_tokens: int = BATCH_TOKENS
    device: str = "auto"
    threads: int | None = None
    int8_bits: int | None = None  # bits in an int8 weight where the job was created; None for other precisions
    request: SourceRequest = SourceRequest()

    @classmethod
    def of(cls, runs: Sequence[Path], method: SearchMethod, **fields: Any) -> "TranslationJob":
        """Creates a job for the models in these directories, recording their current fingerprints.

        Raises ValueError if the precision is unknown.
        """
        directories = tuple(str(run.absolute()) for run in runs)
        job = cls(directories, tuple(map(fingerprint, runs)), method, **fields)
        check_precision(job.precision)
        return job._replace(int8_bits=int8_bits(job.precision))

    def load(self) -> Translator:
        """Loads the models on their device and sets the number of threads of this process."""
        device = set_up_device(self.device, self.threads, self.precision)
        translator = Translator.load(*self.runs, device=str(device), precision=self.precision, **self.request._asdict())
        self.output_format.check(translator)
        return translator

    @property
    def origin(self) -> dict[str, Any]:
        """Everything that the translations depend on except the text, as JSON values.

        The device and the batch size are left out, because the translations do not depend on them.
        """
        method = self.method
        return {
            "model": list(self.fingerprints),
            "precision": self.precision,
            "int8_bits": self.int8_bits,
            **method.decoding.as_dictionary(),
            "n_best": method.n_best,
            "greedy": method.greedy,
            "sampling": method.sampling and {**method.sampling.as_dictionary(), "seed": method.seed},
            "output_format": self.output_format._asdict(),
            **self.request._asdict(),
        }


def int8_bits(precision: str) -> int | None:
    """Returns the number of bits in an int8 weight on this processor, which is 8, or 7 without VNNI.

    Returns None if `precision` is not int8.
    """
    if precision != "int8":
        return None
    return 8 if largest_weight() == LARGEST else 7


class ShardTranslator:
    """Translates shards one after another. The models are loaded when the first shard is translated."""

    def __init__(self, job: TranslationJob) -> None:
        self.job = job

    @cached_property
    def translator(self) -> Translator:
        """A translator with the loaded models.

        Raises ValueError if a model has changed since the job was created, or if the number of bits in an int8 weight
        is different on this processor.
        """
        bits = int8_bits(self.job.precision)
        if bits != self.job.int8_bits:
            raise ValueError(
                f"int8 has {bits} bits on this processor and {self.job.int8_bits} where the translation began: "
                "use processors of one kind, or another --precision"
            )
        translator = self.job.load()
        for run, expected in zip(self.job.runs, self.job.fingerprints, strict=True):
            if fingerprint(Path(run)) != expected:
                raise ValueError(f"the model in {run} was changed meanwhile; run the same command again to use it")
        return translator

    def translate(self, shard: Shard) -> ShardResult:
        """Translates a shard.

        If a line cannot be translated, its output is empty, and the result lists the line and the reason.
        """
        job, before, lines = self.job, shard.lines_before, shard.read()
        faults = self.translator.line_faults(lines)
        lines = ["" if index in faults else line for index, line in enumerate(lines)]
        translations = [[EMPTY] for _ in lines]  # stays for lines with a fault
        for index, best in self.translator.translate_each(lines, job.method, None, job.batch_tokens, before):
            if isinstance(best, str):
                faults[index] = best
            else:
                translations[index] = best
        output = []
        for index, (line, best) in enumerate(zip(lines, translations, strict=True)):
            try:
                output += job.output_format.lines(self.translator, [line], [best], before + index)
            except LineTooLargeError as error:
                faults[index] = error.fault
                output += job.output_format.lines(self.translator, [""], [[EMPTY]], before + index)
        text = "".join(f"{line}\n" for line in output)
        return ShardResult(text, [(before + index + 1, fault) for index, fault in sorted(faults.items())])


def translate_locally(job: TranslationJob, shards: Sequence[Shard]) -> Generator[tuple[Shard, ShardResult]]:
    """Translates shards in this process, one after another, and yields each shard with its result."""
    translator = ShardTranslator(job)
    for shard in shards:
        yield shard, translator.translate(shard)


ShardEngine = Callable[[TranslationJob, Sequence[Shard]], Generator[tuple[Shard, ShardResult]]]
"""Translates shards and yields each one with its result when it is finished, in any order."""


PROGRESS_SECONDS = 10.0  # minimum time between two progress messages
NAMED_FAULTS = 20  # maximum number of untranslated lines that are reported individually


def translate_texts(
    job: TranslationJob,
    texts: Sequence[ShardedText],
    out: Path,
    engine: ShardEngine,
    pairs: PairFilter | None = None,
) -> None:
    """Translates `texts` and writes their outputs.

    Until all outputs are written, finished shards are kept in the folder `out`.bulk, so that another call with the same
    arguments resumes a call that was stopped. If `pairs` is given, the outputs consist of pairs for training, and
    `pairs` drops some of them, for example pairs without a translation.

    Raises ValueError if an output exists that this job did not write, or if another process has locked the folder. If
    lines could not be translated and the outputs are not pairs, raises RuntimeError after all outputs are written.
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
    """Translates the shards that are not finished, and writes each output when its last shard is finished."""
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
    pace: ProgressRate | None = None  # starts after the first shard, because the models are then loaded
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
