"""`transduce verify`: checks every file of a model directory against its checksum."""

from pathlib import Path
from typing import Annotated

import typer


def verify(run: Annotated[Path, typer.Argument(help="A model directory.")]) -> None:
    """Compares a model directory, its checkpoints and its token store with their checksums.

    Raises ValueError where a file has changed or is missing. Checksums find damage, not forgery: they lie beside the
    files, and whoever replaces a file can replace its checksum. The card, the metrics log and unfinished work have
    none. Whether the weights are finite is checked when they are read, whether they translate well by
    `transduce evaluate`.
    """
    from transduce.corpus import verify_store
    from transduce.model_directory import verify
    from transduce.trainer.checkpoints import Checkpoints

    checkpoints, faults = Checkpoints(run / "training"), verify(run)
    for step in checkpoints.steps():
        damage = checkpoints.find_damage(step)
        if step in checkpoints.steps():  # else a running training has removed the checkpoint
            faults += [f"checkpoint {step}: {fault}" for fault in damage]
    faults += [f"prepared corpus: {fault}" for fault in verify_store(run / "training" / "store")]
    if faults:
        raise ValueError("\n  ".join([f"{run} is damaged:", *faults]))
    print(f"{run}: every file matches its checksum")
