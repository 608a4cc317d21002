"""`transduce verify`."""

from pathlib import Path
from typing import Annotated

import typer


def verify(run: Annotated[Path, typer.Argument(help="A model directory.")]) -> None:
    """Checks every file of a model directory against its manifest; exit code 2 where one is not as it was written."""
    from transduce.directory import verify

    faults = verify(run)
    if faults:
        raise ValueError("\n  ".join([f"{run} is damaged:", *faults]))
    print(f"{run}: every file is as it was written")
