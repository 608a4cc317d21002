"""The peers: their releases, their virtual environments, and the environment variables of their processes."""

import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from transduce.runtime.device import count_cores, processor_name

ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).resolve().parent / "inside"
FOLDER = ROOT / ".peers"

TORCH = "torch==2.13.0"
RELEASES = {
    # After each release, packages that it needs and does not install.
    "joeynmt": ("joeynmt==2.3.0", "importlib_metadata"),
    "eole": ("eole==0.6.4", "aiohttp"),
    "huggingface": ("transformers[torch]==5.23.0",),
    "ctranslate2": ("ctranslate2==4.8.5",),
    "datasets": ("datasets==5.2.0", "tokenizers==0.23.3"),
}

# The settings that `transduce` makes when it starts, as environment variables: freed memory is kept, and threads spin
# for microseconds between operations.
TUNED = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(2**26),
    "GOMP_SPINCOUNT": "5000",
}
SHIPPED: dict[str, str] = {}


def python_of(peer: str) -> Path:
    """Returns the interpreter of a peer's virtual environment, `.peers/NAME`, which the first call makes."""
    place = FOLDER / peer
    python = place / "bin/python"
    if not (place / "ready").exists():
        print(f"installing {' '.join(RELEASES[peer])} into {place}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        for packages in ([TORCH], [*RELEASES[peer], TORCH]):
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (place / "ready").touch()
    return python


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables of a process: `settings`, and the inherited ones without our own settings."""
    inherited = {name: value for name, value in os.environ.items() if name not in {*TUNED, "PYTHONPATH"}}
    return {**inherited, **settings, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def machine() -> str:
    """Returns the number of cores, the processor and the version of Python."""
    return f"{count_cores()} cores of {processor_name()}, Python {platform.python_version()}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def median_and_range(values: Sequence[float], digits: int = 0) -> str:
    """Returns the median, and the least and the greatest value in parentheses."""
    median, low, high = (f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low}–{high})"
