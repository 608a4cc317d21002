"""Where the result of a verb goes: a file that is known to take it before hours are spent, or standard output."""

import os
import shutil
import sys
from pathlib import Path

from transduce.storage.atomic import atomic_write

__all__ = ["check_writable", "write_output"]


def check_writable(out: Path | None, *, overwrite: bool = False) -> None:
    """Makes the folder of `out`; raises ValueError where no file can be written there.

    A file that holds something is refused unless `overwrite`; pipes and devices are written to.
    """
    if out is None:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_dir():
        raise ValueError(f"--out {out}: that is a folder; name a file in it")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise ValueError(f"--out {out}: you may not write there; choose another place")
    if not overwrite and out.is_file() and out.stat().st_size:
        raise ValueError(f"--out {out}: there is such a file already; add --overwrite to replace it")


def write_output(text: str, out: Path | None) -> None:
    """To the file, or to standard output."""
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    elif os.access(out.resolve().parent, os.W_OK) and (out.is_file() or not out.exists()):
        atomic_write(out.resolve(), lambda aside: _fill(aside, text, out))  # what was there stays until all of this is
    else:
        out.write_text(text, "utf-8")  # a pipe or a device, or a file in a folder that takes no other


def _fill(aside: Path, text: str, out: Path) -> None:
    """Writes the text; whoever may read what is to be replaced may read this."""
    aside.write_text(text, "utf-8")
    if out.exists():
        shutil.copymode(out, aside)
