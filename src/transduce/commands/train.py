"""`transduce train`: trains a recipe, or resumes its training."""

import os
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.options import DeviceOption, SetOption, ThreadsOption


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe (YAML).")],
    out: Annotated[Path, typer.Option(help="The run directory.")],
    change: SetOption = [],  # noqa: B006
    start_from: Annotated[
        Path | None, typer.Option("--from", help="Start with the weights and subwords of this model.")
    ] = None,
    restart: Annotated[bool, typer.Option(help="Train anew; the earlier run is moved aside.")] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Trains a recipe; the same command resumes a stopped training."""
    from transduce.recipe import load
    from transduce.trainer.train import TrainOptions, run_training

    outcome = run_training(load(recipe, change), out, TrainOptions(device, threads, restart, start_from), say)
    if os.environ.get("RANK", "0") != "0":  # under torchrun only rank 0 prints
        return
    steps = ", ".join(map(str, outcome.weights.steps))
    print(f"{out}: {outcome.reason}; weights: {outcome.weights.kind} of step {steps}")
