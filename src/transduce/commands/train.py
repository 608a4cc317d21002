"""`transduce train`: trains a model from a recipe, or resumes a training run that was stopped."""

import math
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.console import aligned_table
from transduce.commands.input_checks import one_recipe
from transduce.commands.options import DeviceOption, SetOption, ThreadsOption, refuse_options

if TYPE_CHECKING:
    from transduce.corpus.data_spec import DataSpec
    from transduce.recipe.recipe import Recipe
    from transduce.run.dry_run import DryRun
    from transduce.run.trainer import TrainResult


class TrackerName(StrEnum):
    """The trackers to which metrics can be sent in addition to the run directory.

    The services wandb and mlflow read their own settings from environment variables.
    """

    CSV = "csv"
    WANDB = "wandb"  # the project of WANDB_PROJECT, or `transduce`
    MLFLOW = "mlflow"  # the experiment of MLFLOW_EXPERIMENT_NAME, or `transduce`


def train(
    recipe: Annotated[list[Path], typer.Argument(metavar="RECIPE", help="Recipe file (YAML).")],
    out: Annotated[Path, typer.Option(help="Run directory to create or resume.")],
    change: SetOption = [],  # noqa: B006
    start_from: Annotated[
        Path | None,
        typer.Option("--from", help="Fine-tune this model, starting from its weights, subwords and settings."),
    ] = None,
    grow_vocabulary: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --from: maximum number of subwords to learn from the new text and add to each side."
        ),
    ] = None,
    report: Annotated[bool, typer.Option(help="With --from: score the test sets before and after training.")] = True,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over; the earlier run is renamed, not deleted.")
    ] = False,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes",
            help="Resume although training.clip, .precision, .schedule or .micro_batches has changed.",
        ),
    ] = False,
    track: Annotated[
        list[TrackerName],
        typer.Option(
            help="Also write the metrics to OUT/training/metrics.csv, or send them to a service; may be repeated."
        ),
    ] = [],  # noqa: B006
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Time a few steps, print how much time and memory training would need, and keep nothing."
        ),
    ] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only learn the subwords and encode the corpus, without training.")
    ] = False,
    processes: Annotated[
        int,
        typer.Option(min=1, help="Number of data-parallel processes: one per GPU, or several on a busy CPU."),
    ] = 1,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Trains a model from a recipe; repeating the command resumes a run that was stopped."""
    recipe_file = one_recipe(recipe)
    from transduce.run.fine_tuning import load_training_recipe
    from transduce.run.trackers import TrackerChoice
    from transduce.run.train import TrainOptions, run_training
    from transduce.runtime.local_processes import local_processes

    loaded = load_training_recipe(recipe_file, change, out, start_from=start_from, restart=restart)
    if prepare:
        refuse_options({"--from": start_from}, "is for training, which prepares the corpus with that model's subwords")
        print_store(loaded, out, threads)
        return
    trackers = TrackerChoice(
        csv=TrackerName.CSV in track,
        wandb=os.environ.get("WANDB_PROJECT", "transduce") if TrackerName.WANDB in track else None,
        mlflow=os.environ.get("MLFLOW_EXPERIMENT_NAME", "transduce") if TrackerName.MLFLOW in track else None,
    )
    options = TrainOptions(
        device, threads, restart, start_from, grow_vocabulary, report, trackers, accept_changes=accept_changes
    )
    if dry_run:
        if processes > 1:
            raise ValueError("--dry-run measures a run in one process: leave --processes out")
        from transduce.run.dry_run import dry_run as measure

        has_patience = loaded.training.patience is not None
        print(dry_run_table(measure(loaded, out, options), has_patience=has_patience))
        return
    with local_processes(processes, [sys.executable, "-m", "transduce", *sys.argv[1:]]):
        print_result(out, run_training(loaded, out, options), loaded.data)


def print_store(recipe: "Recipe", out: Path, threads: int | None) -> None:
    """Learns the subwords, writes the token store that a training run in `out` will read, and prints its size."""
    from transduce.run.train import prepare
    from transduce.storage.locks import exclusive_lock

    with exclusive_lock(out, "training"):
        prepared = prepare(recipe, out, threads=threads)
    print(f"{prepared.directory}: {len(prepared.train):,} pairs, {prepared.source.size:,} subwords")


def dry_run_table(measured: "DryRun", *, has_patience: bool) -> str:
    """Formats the results of a dry run as a table.

    `has_patience` says whether the recipe sets `training.patience`, which ends a run that has no other limit.
    """
    pace, unit = measured.pace, 2**20
    rows = [
        ("parameters", f"{measured.parameters:,}"),
        ("pairs", f"{measured.pairs:,}"),
        ("an epoch", f"{measured.tokens_per_epoch:,} target tokens, {measured.steps_per_epoch:,} steps"),
        ("a step", f"{pace.step:.3g} s, {measured.tokens_per_second:,.0f} target tokens a second"),
        ("a validation", f"about {pace.validation:.0f} s" if pace.validation else "none"),
    ]
    if measured.seconds is None:
        end = "a validation is no better, `training.patience` times" if has_patience else "you stop it"
        rows.append(("the training", f"until {end}"))
    else:
        rows.append(("the training", f"{measured.steps:,} steps, {measured.epochs:,.1f} epochs, at most"))
        rows.append(("", f"about {measured.seconds / 60:,.0f} minutes on this machine"))
    if math.isfinite(measured.peak_memory):
        rows.append(("peak memory", f"{measured.peak_memory / unit:,.0f} MiB"))
    rows.append(("checkpoints", f"{measured.checkpoints} of {measured.checkpoint_bytes / unit:,.0f} MiB"))
    return aligned_table(rows)


def print_result(out: Path, result: "TrainResult", data: "DataSpec") -> None:
    """Prints why a run ended, which weights it published, and the next command; under torchrun, only rank 0 prints."""
    if os.environ.get("RANK", "0") == "0":
        steps = ", ".join(map(str, result.weights.steps))
        print(f"{out}: {result.reason}; weights: {result.weights.kind} of step {steps}")
        if data.test:
            command = f"evaluate {out} --test {next(iter(data.test))}"
        else:
            command = f"{'translate' if data.tree_linearisation is None else 'parse'} {out} input.txt"
        print(f"next: transduce {command}")
