"""The folder of the corpora that benchmarks read."""

import os
from pathlib import Path


def data_folder(needed: str) -> Path:
    """Returns the folder of `TRANSDUCE_DATA`; ends the program with a message, which names what is `needed` in it."""
    if "TRANSDUCE_DATA" not in os.environ:
        raise SystemExit(f"set TRANSDUCE_DATA to the folder that has {needed}")
    return Path(os.environ["TRANSDUCE_DATA"])
