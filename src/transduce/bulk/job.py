"""What is done with each shard, and the one who does it."""

from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from transduce.bulk.shards import Shard
from transduce.model_directory import fingerprint
from transduce.runtime.device import choose_device, is_out_of_memory, keep_freed_memory, set_threads
from transduce.translation.output_format import OutputFormat
from transduce.translation.translator import (
    BATCH_TOKENS,
    Batch,
    SearchMethod,
    Translation,
    TranslationPrecision,
    Translator,
)

__all__ = ["Job", "ShardResult", "Worker", "local"]

NOTHING = [Translation("", 0.0, 0.0, [])]


class Job(NamedTuple):
    """How every shard is translated: by which models, how, and in which form; on what is for the worker to know."""

    runs: tuple[str, ...]
    models: tuple[str, ...]
    """Their fingerprints."""
    method: SearchMethod
    form: OutputFormat = OutputFormat()
    precision: TranslationPrecision = "float32"
    batch_tokens: int = BATCH_TOKENS
    device: str = "auto"
    threads: int | None = None

    @classmethod
    def of(cls, runs: Sequence[Path], method: SearchMethod, *options: Any) -> "Job":
        """The job of the models in these directories, as they are now; `options` are the fields after `method`."""
        return cls(tuple(str(run.absolute()) for run in runs), tuple(map(fingerprint, runs)), method, *options)

    def load(self) -> Translator:
        """The models, on their device; tells this process how many threads to use."""
        set_threads(self.threads)
        keep_freed_memory()
        translator = Translator.load(*self.runs, device=str(choose_device(self.device)), precision=self.precision)
        if self.form.alignments:
            translator.check_explicable()
        return translator

    @property
    def origin(self) -> dict[str, Any]:
        """All that decides on the translations, as plain JSON values: not how fast they come, nor where."""
        decoding, n_best, greedy, sampling, seed = self.method
        return {
            "model": list(self.models),
            "precision": self.precision,
            **decoding.as_dictionary(),
            "n_best": n_best,
            "greedy": greedy,
            "sampling": sampling and {**sampling.as_dictionary(), "seed": seed},
            "form": self.form._asdict(),
        }


class ShardResult(NamedTuple):
    """A shard's output, and which lines of the text (from 1) it could not translate, and why: they are empty."""

    text: str
    faults: list[tuple[int, str]]


class Worker:
    """Translates shards, one after the other, by models that it loads for the first."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @cached_property
    def translator(self) -> Translator:
        """The models, which must be those that the job was given for."""
        translator = self.job.load()
        for run, known in zip(self.job.runs, self.job.models, strict=True):
            if fingerprint(Path(run)) != known:
                raise ValueError(f"the model in {run} was changed meanwhile; the same command begins anew with it")
        return translator

    def outcome(self, shard: Shard) -> ShardResult:
        """The shard, translated: the bytes that the whole text would have there, and a word on each line left out."""
        before, lines = shard.source.before, shard.source.read()
        prefixes = shard.prefix.read() if shard.prefix else None
        faults = self.translator.untranslatable(lines, prefixes)
        lines = ["" if place in faults else line for place, line in enumerate(lines)]
        found = [NOTHING] * len(lines)
        for batch in self.translator.batches(lines, prefixes, self.job.batch_tokens):
            for place, best in self._solved(batch, before):
                if isinstance(best, str):
                    faults[place] = best
                else:
                    found[place] = best
        written = []
        for place, (line, best) in enumerate(zip(lines, found, strict=True)):
            shown = self._shown(line, best, before + place)
            if shown is None:
                faults[place] = "is too long to be aligned in the memory here; split the line"
                shown = self._shown("", NOTHING, before + place)
            written += shown or []
        text = "".join(f"{line}\n" for line in written)
        return ShardResult(text, [(before + place + 1, why) for place, why in sorted(faults.items())])

    def _shown(self, line: str, best: list[Translation], before: int) -> list[str] | None:
        """What is written of a line; None where its alignment takes more memory than there is."""
        try:
            return self.job.form.lines(self.translator, [line], [best], before)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        return None

    def _solved(self, batch: Batch, before: int) -> Iterator[tuple[int, list[Translation] | str]]:
        """Each line's place and translations; one by one where memory is short, and why not where it is for one."""
        try:
            # A draw follows from the number of the line in the text.
            numbered = batch._replace(numbers=[before + place for place in batch.numbers])
            yield from zip(batch.numbers, self.translator.solved(numbered, self.job.method), strict=True)
            return
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        # Outside of the handler: the error holds on to what was computed so far.
        if len(batch.numbers) == 1:
            yield (
                batch.numbers[0],
                f"has {len(batch.sources[0])} subwords, too many for the memory here; split the line",
            )
            return
        for number, source, forced in zip(*batch, strict=True):
            yield from self._solved(Batch([number], [source], [forced]), before)


def local(job: Job, shards: Sequence[Shard]) -> Generator[tuple[Shard, ShardResult]]:
    """Translates shards in this process, in their order."""
    worker = Worker(job)
    for shard in shards:
        yield shard, worker.outcome(shard)
