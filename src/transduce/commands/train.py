"""`transduce train`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe (YAML).")],
    out: Annotated[Path, typer.Option(help="The model directory.")],
    change: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")] = [],  # noqa: B006
    start_from: Annotated[
        Path | None, typer.Option("--from", help="Begin with this model: its weights and subwords.")
    ] = None,
    restart: Annotated[bool, typer.Option(help="Begin anew; what is there is kept aside.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or one of several: cuda:1.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
) -> None:
    """Trains; the same command again goes on where it stopped."""
    from transduce.recipe import load
    from transduce.trainer.train import TrainOptions, run_training

    outcome = run_training(load(recipe, change), out, TrainOptions(device, threads, restart, start_from), say)
    if os.environ.get("RANK", "0") != "0":  # under torchrun, one of many that end alike
        return
    print(
        f"{out}: {outcome.reason}; weights: {outcome.weights.kind} of step {', '.join(map(str, outcome.weights.steps))}"
    )
