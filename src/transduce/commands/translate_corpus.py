"""`transduce translate-corpus`: translates large files shard by shard, and can write the result as training pairs."""

import functools
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.input_checks import check_exist, check_models
from transduce.commands.options import (
    ActorsOption,
    MachineChoice,
    SamplingChoice,
    SearchChoice,
    TargetChoice,
    search_method_of_options,
)
from transduce.commands.output_file import check_name, lock_output
from transduce.commands.translators import read_config

if TYPE_CHECKING:
    from transduce.bulk.finished_shards import PairFilter
    from transduce.bulk.translate_shards import TranslationJob
    from transduce.translation.output_format import OutputFormat
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.source_request import SourceRequest

SHARD_LINES = 2000

ShardLinesOption = Annotated[int, typer.Option(min=1, help="Number of lines per shard.")]


class PairKind(StrEnum):
    """The kind of training pairs: the translation is the source in backward pairs and the target in forward pairs."""

    BACKWARD = "backward"
    FORWARD = "forward"


def translate_corpus(
    run: Annotated[
        list[Path],
        typer.Argument(metavar="RUN... TEXT", help="Model directories, then a text file or a folder of text files."),
    ],
    out: Annotated[Path, typer.Option(help="File to write, or folder if TEXT is a folder.")],
    search: SearchChoice,
    languages: TargetChoice,
    sampling: SamplingChoice,
    machine: MachineChoice,
    pairs: Annotated[
        PairKind | None,
        typer.Option(
            help="Write training pairs as TSV: backward for back-translation (TEXT becomes the target side), forward "
            "for distillation (TEXT is the source side)."
        ),
    ] = None,
    shard_lines: ShardLinesOption = SHARD_LINES,
    actors: ActorsOption = None,
) -> None:
    """Translates a corpus shard by shard; repeating the command resumes a translation that was stopped."""
    runs, text = runs_and_corpus(run)
    from transduce.translation.output_format import OutputFormat

    method = search_method_of_options(read_config(runs[0]).decoding, search, sampling)
    job = bulk_job(
        runs, method, machine, languages.request(), OutputFormat(pairs=None if pairs is None else pairs.value)
    )
    if pairs is None:
        translate_in_bulk(job, text, out, shard_lines, actors)
    else:
        make_pairs(job, text, out, shard_lines, actors)


def runs_and_corpus(paths: list[Path]) -> tuple[list[Path], Path]:
    """Splits the paths of a command line into the model directories and the corpus, which is the last path.

    Raises ValueError if the model directories or the corpus are missing, and OSError if the corpus does not exist.
    """
    from transduce.model_directory.manifest import CONFIG, MANIFEST

    *runs, text = paths
    if not runs:
        raise ValueError("name a file or a folder after the model; a corpus is not read from standard input")
    if all((text / name).exists() for name in (CONFIG, MANIFEST)):
        raise ValueError(f"{text} is a model; the last path is the text, a file or a folder")
    check_models(runs)
    check_exist(text)
    return runs, text


def translate_in_bulk(
    job: "TranslationJob",
    text: Path,
    out: Path,
    shard_lines: int,
    actors: int | None,
    pairs: "PairFilter | None" = None,
) -> None:
    """Translates a text file, which may be compressed, or a folder of text files, shard by shard.

    If an earlier call was stopped, the shards that it finished are not translated again. With `pairs`, the output
    consists of training pairs, which `pairs` filters.
    """
    from transduce.bulk.ray_engine import translate_on_ray
    from transduce.bulk.shards import cut_texts, plain_text
    from transduce.bulk.translate_shards import translate_locally, translate_texts
    from transduce.runtime.signals import raise_on_signals

    check_out(out)
    out = out.resolve()  # writes to the target of a link, so that the link is kept
    unpacked = out.with_name(f"{out.name}.bulk") / "unpacked"
    with raise_on_signals(), plain_text(text, unpacked) as plain:
        texts = cut_texts(plain, out, shard_lines)
        for translated in texts:
            check_name(translated.out)
        if not text.is_dir():
            lock_output(out)
        on_ray = functools.partial(translate_on_ray, actors=actors)
        translate_texts(job, texts, out, translate_locally if actors is None else on_ray, pairs)


def bulk_job(
    runs: list[Path],
    method: "SearchMethod",
    machine: MachineChoice,
    request: "SourceRequest",
    output_format: "OutputFormat",
) -> "TranslationJob":
    """Builds the description of how every shard is translated."""
    from transduce.bulk.translate_shards import TranslationJob
    from transduce.translation.translator import BATCH_TOKENS

    return TranslationJob.of(
        runs,
        method,
        output_format=output_format,
        precision=machine.precision_name,
        batch_tokens=BATCH_TOKENS,
        device=machine.device,
        threads=machine.threads,
        request=request,
    )


def make_pairs(job: "TranslationJob", text: Path, out: Path, shard_lines: int, actors: int | None) -> None:
    """Translates `text` and writes the training pairs that pass `PairFilter` to `out`.

    Like `translate_in_bulk`, resumes an earlier call that was stopped. Raises ValueError if `text` is a folder, or if a
    model does not support the languages or the tag of the job.
    """
    from transduce.bulk.finished_shards import PairFilter
    from transduce.model_directory.model import Model
    from transduce.translation.source_request import choose_tags

    if text.is_dir():
        raise ValueError(f"{text} is a folder: name one file of text; `cat` joins several")
    check_out(out)
    out = out.resolve()
    check_name(out)
    for run in map(Path, job.runs):
        model = Model.read(run)
        choose_tags(model.config, model.source, job.request)  # raises ValueError if the model does not support it
    translate_in_bulk(job, text, out, shard_lines, actors, PairFilter())


def check_out(out: Path) -> None:
    """Raises ValueError if `out` has no file name, because the folder of finished shards is named after it."""
    if out.name in ("", ".."):
        raise ValueError(f"--out {out}: name the file or the folder itself, such as translated/")
