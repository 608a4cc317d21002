"""`transduce verify`."""

from pathlib import Path
from typing import Annotated

import typer


def verify(run: Annotated[Path, typer.Argument(help="A model directory.")]) -> None:
    """Checks every file of a model directory and of its checkpoints; exit code 2 where one is not as it was written."""
    from transduce.directory import verify
    from transduce.training.checkpoint import Checkpoints

    checkpoints, found = Checkpoints(run / "training"), verify(run)
    for step in checkpoints.steps():
        faults = checkpoints.faults(step)
        if step in checkpoints.steps():  # a training at work removes its oldest
            found += [f"checkpoint {step}: {fault}" for fault in faults]
    if found:
        raise ValueError("\n  ".join([f"{run} is damaged:", *found]))
    print(f"{run}: every file is as it was written")
