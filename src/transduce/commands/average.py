"""`transduce average`: averages the weights of checkpoints."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.input_checks import check_models


def average(
    run: Annotated[Path, typer.Argument(help="Run whose checkpoints to average.")],
    steps: Annotated[
        list[int], typer.Argument(metavar="[STEP]...", help="Steps of the checkpoints to average, instead of --last.")
    ] = [],  # noqa: B006
    *,
    out: Annotated[Path, typer.Option(help="Model directory to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="Average the last N checkpoints.")] = None,
) -> None:
    """Averages the weights of checkpoints into a new model directory."""
    if (last is None) == (not steps):
        raise ValueError("name the checkpoints to average: either --last N, or their steps after RUN")
    check_models([run])
    from transduce.recipe.corpora_of_run import test_sets_of
    from transduce.run.publishing import average

    weights = average(run, out, last, steps)
    print(f"{out}: average of steps {', '.join(map(str, weights.steps))}")
    if tests := test_sets_of(out):
        say(f"measure it with `transduce evaluate {out} --test {next(reversed(tests))}`")
