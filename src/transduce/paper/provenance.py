"""Where a result comes from: the command, the program, the machine, the day."""

import datetime
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

import transduce
from transduce.runtime.device import describe_environment

__all__ = ["on", "program", "provenance"]


def provenance(device: torch.device, seconds: float) -> str:
    """A paragraph that stands under every table."""
    machine = describe_environment(device)
    command = shlex.join(["transduce", *sys.argv[1:]])
    return (
        f"`{command}`, transduce {program()}, torch {machine['torch']}, "
        f"{on(machine)}, {datetime.date.today().isoformat()}; this call took {seconds / 60:.1f} minutes."
    )


def on(machine: Mapping[str, Any]) -> str:
    """The device of an environment, for a processor with its threads."""
    if machine["device"] != "cpu":
        return str(machine["device"])
    threads = f"{machine['threads']} thread{'' if machine['threads'] == 1 else 's'}"
    name = f"{machine['machine']}, {machine['processor']}" if "machine" in machine else f"{machine['processor']}"
    return f"{threads} of {name}"


@cache
def program() -> str:
    """The version of this package, and the commit; as they were when it was asked first, whatever is pulled since."""
    return f"{transduce.__version__}{_commit()}"


def _commit() -> str:
    """The commit of a working copy, and whether the program differs from it; nothing where it lies in none."""
    try:
        commit, changed = _git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" at {commit}{'-dirty' if changed else ''}"


def _git(*asked: str) -> str:
    """What git says of the package's folder."""
    command = ["git", "-C", str(Path(transduce.__file__).parent), *asked]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
