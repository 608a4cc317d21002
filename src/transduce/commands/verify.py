"""`transduce verify`."""

from pathlib import Path
from typing import Annotated

import typer


def verify(run: Annotated[Path, typer.Argument(help="A model directory.")]) -> None:
    """Checks a model directory, its checkpoints and its prepared corpus; exit code 2 where a file has changed."""
    from transduce.corpus import verify_store
    from transduce.model_directory import verify
    from transduce.trainer.checkpoints import Checkpoints

    checkpoints, found = Checkpoints(run / "training"), verify(run)
    for step in checkpoints.steps():
        faults = checkpoints.find_damage(step)
        if step in checkpoints.steps():  # a training at work removes its oldest
            found += [f"checkpoint {step}: {fault}" for fault in faults]
    found += [f"prepared corpus: {fault}" for fault in verify_store(run / "training" / "store")]
    if found:
        raise ValueError("\n  ".join([f"{run} is damaged:", *found]))
    print(f"{run}: every file is as it was written")
