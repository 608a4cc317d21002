"""The origin of a result: command, program, machine and day."""

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


def provenance(device: torch.device, seconds: float) -> str:
    """Returns the paragraph that ends every table: command, program, machine, day and duration."""
    environment = describe_environment(device)
    command = shlex.join(["transduce", *sys.argv[1:]])
    return (
        f"`{command}`, transduce {program_version()}, torch {environment['torch']}, "
        f"{describe_machine(environment)}, {datetime.date.today().isoformat()}; "
        f"this call took {seconds / 60:.1f} minutes."
    )


def describe_machine(environment: Mapping[str, Any]) -> str:
    """Returns the device of an environment; for a processor also the number of threads."""
    if environment["device"] != "cpu":
        return str(environment["device"])
    threads = f"{environment['threads']} thread{'' if environment['threads'] == 1 else 's'}"
    machine = f"{environment['machine']}, " if "machine" in environment else ""
    return f"{threads} of {machine}{environment['processor']}"


@cache
def program_version() -> str:
    """Returns the version of this package and its commit, as they were at the first call of this process."""
    return f"{transduce.__version__}{_commit()}"


def _commit() -> str:
    """Returns the commit of the working copy, `-dirty` where the package differs from it; empty outside of git."""
    try:
        commit, changes = _git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" at {commit}{'-dirty' if changes else ''}"


def _git(*arguments: str) -> str:
    """Returns the output of a git command in the folder of the package."""
    command = ["git", "-C", str(Path(transduce.__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
