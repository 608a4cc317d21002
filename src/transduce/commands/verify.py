"""`transduce verify`."""

from pathlib import Path
from typing import Annotated

import typer


def verify(run: Annotated[Path, typer.Argument(help="A model directory.")]) -> None:
    """Checks every file of a model directory and of its checkpoints; exit code 2 where one is not as it was written."""
    from transduce.directory import verify
    from transduce.training.checkpoint import Checkpoints

    checkpoints = Checkpoints(run / "training", keep=1)
    faults = [
        *verify(run),
        *(f"checkpoint {step}: {fault}" for step in checkpoints.steps() for fault in checkpoints.faults(step)),
    ]
    if faults:
        raise ValueError("\n  ".join([f"{run} is damaged:", *faults]))
    print(f"{run}: every file is as it was written")
