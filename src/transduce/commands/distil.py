"""`transduce distil`: trains a smaller model on the translations of a good one."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.bulk import SHARD_LINES, make_pairs
from transduce.commands.options import (
    BatchTokensOption,
    BeamOption,
    DeviceOption,
    Engine,
    FromOption,
    GreedyOption,
    LengthPenaltyOption,
    PrecisionName,
    PrecisionOption,
    SetOption,
    ThreadsOption,
    ToOption,
    search_method_of_options,
)
from transduce.commands.train import print_result


def distil(
    teacher: Annotated[list[Path], typer.Argument(help="The model to imitate; several are an ensemble.")],
    source: Annotated[Path, typer.Option(help="Text in the source language, one sentence a line; may be compressed.")],
    out: Annotated[Path, typer.Option(help="The run directory of the student.")],
    pairs: Annotated[
        Path | None, typer.Option(help="The file of the text and its translations; OUT.pairs.tsv if not given.")
    ] = None,
    preset: Annotated[str, typer.Option(help="The preset of the student, such as `fast` or `tiny`.")] = "fast",
    change: SetOption = [],  # noqa: B006
    to: ToOption = None,
    source_language: FromOption = None,
    beam: BeamOption = None,
    length_penalty: LengthPenaltyOption = None,
    greedy: GreedyOption = False,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = PrecisionName.FLOAT32,
    engine: Annotated[Engine, typer.Option(help="What translates: this process, or the actors of Ray.")] = Engine.LOCAL,
    shard_lines: Annotated[int | None, typer.Option(min=1, help=f"{SHARD_LINES} if not given.")] = None,
    actors: Annotated[int | None, typer.Option(min=1, help="Models that work at once, with --engine ray.")] = None,
) -> None:
    """Translates text with a teacher and trains a student on it; the same command resumes both."""
    from transduce.bulk.job import TranslationJob
    from transduce.commands.translate import read_config
    from transduce.corpus.readers import check_files
    from transduce.recipe.distillation import choose_direction, read_teacher_recipe, student_recipe
    from transduce.trainer.run_directory import check_is_run_or_empty
    from transduce.trainer.train import TrainOptions, run_training
    from transduce.translation.output_format import OutputFormat
    from transduce.translation.source_request import SourceRequest
    from transduce.translation.translator import BATCH_TOKENS

    config = read_config(teacher[0])
    teacher_recipe = read_teacher_recipe(teacher[0])
    direction = choose_direction(teacher_recipe, to, source_language)
    pairs = (pairs or out.absolute().with_name(f"{out.name}.pairs.tsv")).absolute()
    recipe = student_recipe(teacher_recipe, direction, pairs, preset, change)
    check_is_run_or_empty(out)
    check_files(recipe.data.model_copy(update={"train": ()}))  # those of training are made first
    method = search_method_of_options(config.decoding, 1, beam=beam, length_penalty=length_penalty, greedy=greedy)
    job = TranslationJob.of(
        teacher,
        method,
        output_format=OutputFormat(pairs="forward"),
        precision=precision.value,
        batch_tokens=batch_tokens or BATCH_TOKENS,
        device=device,
        threads=threads,
        request=SourceRequest(to, source_language),
    )
    make_pairs(job, source, pairs, engine, shard_lines=shard_lines, actors=actors)
    print_result(out, run_training(recipe, out, TrainOptions(device, threads)))
