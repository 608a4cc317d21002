"""Where a result comes from: the command, the program, the machine, the day."""

import datetime
import shlex
import subprocess
import sys
from pathlib import Path

import torch

import transduce
from transduce.machine import environment

__all__ = ["program", "provenance"]


def provenance(device: torch.device, seconds: float) -> str:
    """A paragraph that stands under every table."""
    machine = environment(device)
    where = machine["device"] if device.type == "cuda" else f"{machine['threads']} threads of {machine['processor']}"
    command = shlex.join(["transduce", *sys.argv[1:]])
    return (
        f"`{command}`, transduce {program()}, torch {machine['torch']}, "
        f"{where}, {datetime.date.today().isoformat()}; this call took {seconds / 60:.1f} minutes."
    )


def program() -> str:
    """The version of this package, and the commit."""
    return f"{transduce.__version__}{_commit()}"


def _commit() -> str:
    """The commit of a working copy; nothing where the package does not lie in one."""
    folder = Path(transduce.__file__).parent
    try:
        asked = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude", "*"]
        found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" at {found}"
