"""`transduce train`: trains a recipe, or resumes its training."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.console import say
from transduce.commands.options import DeviceOption, SetOption, ThreadsOption

if TYPE_CHECKING:
    from transduce.trainer.trainer import TrainResult


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe (YAML).")],
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
    restart: Annotated[bool, typer.Option(help="Train anew; the earlier run is moved aside.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Also write the metrics to OUT/training/metrics.csv.")] = False,
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Also send the metrics to this project of Weights & Biases.")
    ] = None,
    mlflow: Annotated[
        str | None, typer.Option(metavar="EXPERIMENT", help="Also send the metrics to this experiment of MLflow.")
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Trains a recipe; the same command resumes a stopped training."""
    from transduce.trainer.fine_tuning import load_training_recipe
    from transduce.trainer.trackers import TrackerChoice
    from transduce.trainer.train import TrainOptions, run_training

    loaded = load_training_recipe(recipe, change, out, start_from=start_from, restart=restart, warn=say)
    options = TrainOptions(
        device, threads, restart, start_from, grow_vocabulary, report, TrackerChoice(csv, wandb, mlflow)
    )
    print_result(out, run_training(loaded, out, options, say))


def print_result(out: Path, result: "TrainResult") -> None:
    """Prints why a training ended and which weights it has published; under torchrun only rank 0 prints."""
    if os.environ.get("RANK", "0") == "0":
        steps = ", ".join(map(str, result.weights.steps))
        print(f"{out}: {result.reason}; weights: {result.weights.kind} of step {steps}")
