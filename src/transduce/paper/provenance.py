"""Describes where a result comes from: the command, the version of the program, the machine and the date."""

import datetime
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

import transduce
from transduce.runtime.device import describe_environment


class Provenance(NamedTuple):
    """The origin of the results on a page: the command that measured them, the program, the machine and the date."""

    command: str
    program: str  # version and commit
    torch: str
    machine: str
    day: str
    minutes: float

    def __str__(self) -> str:
        """Returns the paragraph that ends every page."""
        return (
            f"`{self.command}`, transduce {self.program}, torch {self.torch}, {self.machine}, {self.day}; "
            f"this call took {self.minutes:.1f} minutes."
        )


def provenance_of_this_call(device: torch.device, seconds: float) -> Provenance:
    """Returns the provenance of results that took this process `seconds` to measure."""
    environment = describe_environment(device)
    return Provenance(
        command=shlex.join(["transduce", *sys.argv[1:]]),
        program=program_version(),
        torch=environment["torch"],
        machine=describe_machine(environment),
        day=datetime.date.today().isoformat(),
        minutes=round(seconds / 60, 1),
    )


def describe_machine(environment: Mapping[str, Any]) -> str:
    """Describes the device of an environment; for a CPU, the description includes the number of threads."""
    if environment["device"] != "cpu":
        return str(environment["device"])
    threads = f"{environment['threads']} thread{'' if environment['threads'] == 1 else 's'}"
    machine = f"{environment['machine']}, " if "machine" in environment else ""
    return f"{threads} of {machine}{environment['processor']}"


@cache
def program_version() -> str:
    """Returns the version and the commit of this package, as they were when this process first called the function."""
    try:
        commit, changes = _git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):  # outside of git
        return transduce.__version__
    return f"{transduce.__version__} at {commit}{'-dirty' if changes else ''}"


def _git(*arguments: str) -> str:
    """Runs a Git command in the folder of the package and returns its output."""
    command = ["git", "-C", str(Path(transduce.__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
