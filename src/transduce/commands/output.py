"""Where the result of a verb goes: a file that is known to take it before hours are spent, or standard output."""

import contextlib
import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from transduce.commands.console import say
from transduce.runtime.signals import raise_on_signals
from transduce.storage.atomic import atomic_write, flush_to_disk
from transduce.storage.named_errors import name_in_errors

__all__ = ["check_no_partial", "check_writable", "open_output", "write_output"]


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
        return
    with name_in_errors(out):
        if _is_replaceable(out):
            atomic_write(out.resolve(), lambda aside: _fill(aside, text, out))  # the old file stays until this is whole
        else:
            out.write_text(text, "utf-8")  # a pipe or a device, or a file in a folder that takes no other


def check_no_partial(out: Path | None, *, overwrite: bool = False) -> None:
    """Raises ValueError where a stopped command has left lines in OUT.partial, unless `overwrite`."""
    if out is not None and not overwrite and (partial := _partial_path(out)).exists() and partial.stat().st_size:
        raise ValueError(f"{partial}: holds the lines of a stopped command; move it, or add --overwrite to replace it")


def _partial_path(out: Path) -> Path:
    """Returns the path of the lines that are finished before all of `out` is."""
    return out.resolve().with_name(f"{out.name}.partial")


@contextlib.contextmanager
def open_output(out: Path | None) -> Iterator[Callable[[str], None]]:
    """Gives the function that writes whole lines to `out` or to standard output, each time flushed.

    A file is written as OUT.partial and becomes OUT at the end. Where an error, Ctrl-C or SIGTERM ends the context,
    OUT.partial stays if it holds lines, and a message names it. Pipes and devices are written to directly.
    """
    if out is None:
        yield functools.partial(_write_at_once, sys.stdout)
        return
    path = _partial_path(out) if _is_replaceable(out) else out
    try:
        with raise_on_signals(), path.open("w", encoding="utf-8") as file:
            yield functools.partial(_write_at_once, file)
    except BaseException:
        if path != out:
            _keep_partial(path)
        raise
    if path != out:
        if out.exists():
            shutil.copymode(out, path)
        flush_to_disk(path)
        path.replace(out.resolve())
        flush_to_disk(out.resolve().parent)


def _write_at_once(file: TextIO, text: str) -> None:
    """Writes and flushes; an error names the file."""
    try:
        with name_in_errors("standard output" if file is sys.stdout else file.name):
            file.write(text)
            file.flush()
    except OSError:
        if file is not sys.stdout:
            with contextlib.suppress(OSError):
                file.close()  # else closing it later would raise the error again, without the name
        raise


def _keep_partial(partial: Path) -> None:
    """Names the file of the finished lines; removes it where there is none."""
    with contextlib.suppress(OSError):
        if partial.stat().st_size:
            say(f"transduce: finished lines are kept in {partial}")
        else:
            partial.unlink()


def _is_replaceable(out: Path) -> bool:
    """Whether `out` is a file, or will be, in a folder that takes other files: no pipe and no device."""
    return os.access(out.resolve().parent, os.W_OK) and (out.is_file() or not out.exists())


def _fill(aside: Path, text: str, out: Path) -> None:
    """Writes the text; whoever may read what is to be replaced may read this."""
    aside.write_text(text, "utf-8")
    if out.exists():
        shutil.copymode(out, aside)
