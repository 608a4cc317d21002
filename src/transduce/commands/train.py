"""`transduce train`: trains a recipe, or resumes its training."""

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
    from transduce.recipe.recipe import Recipe
    from transduce.run.dry_run import DryRun
    from transduce.run.trainer import TrainResult


class TrackerName(StrEnum):
    """Where metrics are sent besides the run directory; the services read their environment variables themselves."""

    CSV = "csv"
    WANDB = "wandb"  # the project of WANDB_PROJECT, or `transduce`
    MLFLOW = "mlflow"  # the experiment of MLFLOW_EXPERIMENT_NAME, or `transduce`


def train(
    recipe: Annotated[list[Path], typer.Argument(metavar="RECIPE", help="A recipe (YAML).")],
    out: Annotated[Path, typer.Option(help="The run directory.")],
    change: SetOption = [],  # noqa: B006
    start_from: Annotated[
        Path | None,
        typer.Option("--from", help="Fine-tune this model: start with its weights, subwords and settings."),
    ] = None,
    grow_vocabulary: Annotated[
        int | None, typer.Option(min=1, help="With --from: subwords, at most, that each side gains on the new text.")
    ] = None,
    report: Annotated[bool, typer.Option(help="With --from: measure the test sets before and after.")] = True,
    restart: Annotated[bool, typer.Option("--restart", help="Train anew; the earlier run is moved aside.")] = False,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes", help="Go on with another training.clip, .precision, .schedule or .micro_batches."
        ),
    ] = False,
    track: Annotated[
        list[TrackerName],
        typer.Option(help="Also write the metrics to OUT/training/metrics.csv, or send them to a service; repeatable."),
    ] = [],  # noqa: B006
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Measure some steps, print what the training would take, and keep nothing."),
    ] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only learn the subwords and write the token store, which training reads.")
    ] = False,
    processes: Annotated[
        int,
        typer.Option(min=1, help="Processes that share each step: one for each GPU, or on a CPU with other work."),
    ] = 1,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Trains a recipe; the same command resumes a stopped training."""
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
        print_result(out, run_training(loaded, out, options))


def print_store(recipe: "Recipe", out: Path, threads: int | None) -> None:
    """Learns the subwords and writes the token store, which a run into `out` will read."""
    from transduce.run.train import prepare
    from transduce.storage.locks import exclusive_lock

    with exclusive_lock(out, "training"):
        prepared = prepare(recipe, out, threads=threads)
    print(f"{prepared.directory}: {len(prepared.train):,} pairs, {prepared.source.size:,} subwords")


def dry_run_table(measured: "DryRun", *, has_patience: bool) -> str:
    """Formats the estimated needs of a run as a table."""
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


def print_result(out: Path, result: "TrainResult") -> None:
    """Prints why a run ended and which weights it has published; under torchrun only rank 0 prints."""
    if os.environ.get("RANK", "0") == "0":
        steps = ", ".join(map(str, result.weights.steps))
        print(f"{out}: {result.reason}; weights: {result.weights.kind} of step {steps}")
