"""Translation jobs: how every shard is translated, and the translator of shards in one process."""

from collections.abc import Generator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from transduce.bulk.shards import Shard
from transduce.model.int8 import LARGEST, largest_weight
from transduce.model_directory.manifest import fingerprint
from transduce.runtime.device import set_up_device
from transduce.translation.batching import LineTooLargeError
from transduce.translation.engine import TranslationPrecision, check_precision
from transduce.translation.output_format import OutputFormat
from transduce.translation.results import EMPTY
from transduce.translation.search_method import SearchMethod
from transduce.translation.source_request import SourceRequest
from transduce.translation.translator import BATCH_TOKENS, Translator


class TranslationJob(NamedTuple):
    """How every shard is translated: the models, the search and the output format."""

    runs: tuple[str, ...]
    fingerprints: tuple[str, ...]  # of the models
    method: SearchMethod
    output_format: OutputFormat = OutputFormat()
    precision: TranslationPrecision = "float32"
    batch_tokens: int = BATCH_TOKENS
    device: str = "auto"
    threads: int | None = None
    int8_bits: int | None = None  # of an int8 weight on the machine that made the job; None for another precision
    request: SourceRequest = SourceRequest()

    @classmethod
    def of(cls, runs: Sequence[Path], method: SearchMethod, **fields: Any) -> "TranslationJob":
        """Returns the job of the models in these directories as they are now.

        Raises ValueError for an unknown precision.
        """
        directories = tuple(str(run.absolute()) for run in runs)
        job = cls(directories, tuple(map(fingerprint, runs)), method, **fields)
        check_precision(job.precision)
        return job._replace(int8_bits=int8_bits(job.precision))

    def load(self) -> Translator:
        """Loads the models on their device; sets the threads of this process."""
        device = set_up_device(self.device, self.threads, self.precision)
        translator = Translator.load(*self.runs, device=str(device), precision=self.precision, **self.request._asdict())
        self.output_format.check(translator)
        return translator

    @property
    def origin(self) -> dict[str, Any]:
        """Everything that the translations depend on except the text, as JSON; device and batch size do not count."""
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
    """Returns the bits of an int8 weight on this processor: 8, or 7 without VNNI; None for another precision."""
    if precision != "int8":
        return None
    return 8 if largest_weight() == LARGEST else 7


class ShardResult(NamedTuple):
    """The output of a shard, and the lines that could not be translated: number in the text (from 1) and reason.

    The output of a line that could not be translated is empty.
    """

    text: str
    faults: list[tuple[int, str]]


class ShardTranslator:
    """Translates shards, one after another; loads the models for the first."""

    def __init__(self, job: TranslationJob) -> None:
        self.job = job

    @cached_property
    def translator(self) -> Translator:
        """The loaded models. Raises ValueError where a model has changed, or int8 has 7 bits here and 8 in the job."""
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
        """Translates a shard; a line that is too long is empty in the output and has a fault."""
        job, before, lines = self.job, shard.lines_before, shard.read()
        faults = self.translator.line_faults(lines)
        lines = ["" if index in faults else line for index, line in enumerate(lines)]
        translations = [[EMPTY] for _ in lines]  # of lines with a fault
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
    """Translates shards in this process, in their order."""
    translator = ShardTranslator(job)
    for shard in shards:
        yield shard, translator.translate(shard)
