"""`transduce distil`: trains a smaller student model on the translations of a teacher model."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.input_checks import check_exist, check_models
from transduce.commands.options import (
    ActorsOption,
    MachineChoice,
    SearchChoice,
    SetOption,
    SourceLanguageOption,
    TargetChoice,
    search_method_of_options,
)
from transduce.commands.train import print_result
from transduce.commands.translate_corpus import SHARD_LINES, ShardLinesOption, bulk_job, make_pairs
from transduce.commands.translators import read_config
from transduce.runtime.progress import stage


def distil(
    teacher: Annotated[list[Path], typer.Argument(help="Model directory of the teacher; several form an ensemble.")],
    source: Annotated[Path, typer.Option(help="Source text with one sentence per line; may be compressed.")],
    out: Annotated[
        Path, typer.Option(help="Run directory of the student; its training pairs are written to OUT.pairs.tsv.")
    ],
    search: SearchChoice,
    languages: TargetChoice,
    machine: MachineChoice,
    preset: Annotated[str, typer.Option(help="Preset of the student, such as `fast` or `tiny`.")] = "fast",
    change: SetOption = [],  # noqa: B006
    source_language: SourceLanguageOption = None,
    shard_lines: ShardLinesOption = SHARD_LINES,
    actors: ActorsOption = None,
) -> None:
    """Translates text with a teacher and trains a student on it; repeating the command resumes a stopped run."""
    check_models(teacher)
    check_exist(source)
    from transduce.corpus.readers import check_files
    from transduce.recipe.distillation import choose_direction, read_teacher_recipe, student_recipe
    from transduce.run.run_directory import check_is_run_or_empty
    from transduce.run.train import TrainOptions, run_training
    from transduce.translation.output_format import OutputFormat

    config = read_config(teacher[0])
    teacher_recipe = read_teacher_recipe(teacher[0])
    direction = choose_direction(teacher_recipe, languages.to, source_language)
    pairs = out.absolute().with_name(f"{out.name}.pairs.tsv")
    recipe = student_recipe(teacher_recipe, direction, pairs, preset, change)
    check_is_run_or_empty(out)
    check_files(*recipe.data.validations)  # the training pairs do not exist yet
    method = search_method_of_options(config.decoding, search)
    job = bulk_job(teacher, method, machine, languages.request(source_language), OutputFormat(pairs="forward"))
    with stage("teacher"):
        make_pairs(job, source, pairs, shard_lines, actors)
    with stage("student"):
        result = run_training(recipe, out, TrainOptions(machine.device, machine.threads))
    print_result(out, result, recipe.data)
