"""The output of a command: standard output, or a file that is checked before hours of work."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from transduce.commands.console import say
from transduce.runtime.signals import raise_on_signals
from transduce.storage.atomic import MAX_WRITERS, LockedFile, NotRemovableError, unfinished_path
from transduce.storage.locks import LockHeldError, name_second_writer, output_lock
from transduce.storage.result_files import copy_mode, is_replaceable, may_replace, name_in_errors, replace_file


class LockedOutputs(NamedTuple):
    """The outputs of one command: their locks, and for each file the option that names it."""

    locks: contextlib.ExitStack
    options: dict[Path, str]


_commands: list[LockedOutputs] = []


@contextlib.contextmanager
def release_outputs() -> Iterator[None]:
    """Holds the locks that `lock_output` takes until the context, which is one command, ends."""
    with contextlib.ExitStack() as locks:
        _commands.append(LockedOutputs(locks, {}))
        try:
            yield
        finally:
            _commands.pop()


def lock_output(out: Path, option: str = "--out") -> None:
    """Locks an output file until the command ends; raises LockHeldError if another command is writing it.

    Raises ValueError if this command has locked the file for another option, or if this user may not replace it. Pipes
    and devices may be named twice.
    """
    if not _commands:
        return
    locks, options = _commands[-1]
    target = out.resolve()
    if target in options and (is_replaceable(out) or out.is_file()):
        raise ValueError(f"{options[target]} and {option} name the same file, {out}; name another file")
    for path in (target, _partial_path(out)) if is_replaceable(out) else ():
        if path.exists() and not may_replace(path):  # otherwise the error would come after the work
            raise ValueError(f"{option} {NotRemovableError(path)}")
    try:
        locks.enter_context(output_lock(out))
    except LockHeldError as error:
        raise LockHeldError(f"{option} {error}") from None
    options[target] = option


def check_writable(
    out: Path | None, *, overwrite: bool = False, option: str = "--out", inputs: Iterable[Path | str | None] = ()
) -> None:
    """Makes the folder of `out` and locks the file; raises ValueError if no file can be written there.

    Also raises ValueError if `out` is one of the `inputs` or another command is writing `out`. Unless `overwrite`,
    raises ValueError if `out` is a file with content, or if a stopped command has left lines in OUT.partial. The
    message names the `option`. Pipes and devices pass.
    """
    if out is None:
        return
    if str(out) == "-":
        raise ValueError(f"{option} -: name a file; one that is called so is ./-")
    if out.is_file() and any(Path(file).is_file() and out.samefile(file) for file in inputs if file is not None):
        raise ValueError(f"{option} {out}: that is the file that is read; name another file")
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_dir():
        raise ValueError(f"{option} {out}: that is a folder; name a file in it")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise ValueError(f"{option} {out}: no permission to write there; choose another place")
    if is_replaceable(out):
        check_name(out, option)
    lock_output(out, option)
    # Checked once the file is locked, because another command may have written it before.
    if not overwrite and out.is_file() and out.stat().st_size:
        raise ValueError(f"{option} {out}: the file exists already; add --overwrite to replace it")
    partial = _partial_path(out)
    if not overwrite and is_replaceable(out) and partial.exists() and partial.stat().st_size:
        raise ValueError(f"{partial}: holds the lines of a stopped command; move it, or add --overwrite to replace it")


def check_name(out: Path, option: str = "--out") -> None:
    """Raises ValueError if the temporary files of `out` would need names that are too long for the file system."""
    try:
        # The record of a bulk translation has the longest name.
        unfinished_path(out.resolve().with_name(f"{out.name}.json"), MAX_WRITERS).lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"{option} {out}: {reason}; choose a shorter name or another place") from None


def write_output(text: str, out: Path) -> None:
    """Writes a text to `out`: atomically if it is a file, directly if it is a pipe or a device."""
    replace_file(out, lambda path: path.write_text(text, "utf-8", newline="\n"))


def _partial_path(out: Path) -> Path:
    """Path of the finished lines while `out` is incomplete."""
    return out.resolve().with_name(f"{out.name}.partial")


@contextlib.contextmanager
def open_output(out: Path | None) -> Iterator[Callable[[str], None]]:
    """Yields a function that writes and flushes whole lines to `out`, or to standard output if `out` is None.

    A file is written as OUT.partial and becomes OUT at the end. If an error, Ctrl-C or SIGTERM ends the context,
    OUT.partial stays if it holds lines, and a message names it. Pipes and devices are written to directly.
    """
    if out is None:
        yield functools.partial(_write_and_flush, sys.stdout)
        return
    if not is_replaceable(out):
        with raise_on_signals(), out.open("w", encoding="utf-8", newline="\n") as stream:
            yield functools.partial(_write_and_flush, stream)
        return
    with name_second_writer(out):
        partial = LockedFile(_partial_path(out))
    try:
        with raise_on_signals(), partial.open_text() as stream:
            yield functools.partial(_write_and_flush, stream)
        copy_mode(out, partial.path)
        partial.publish(out.resolve())
    except BaseException:
        _keep_finished_lines(partial)
        raise


def _write_and_flush(file: TextIO, text: str) -> None:
    """Writes a text and flushes the file; an error names the file."""
    try:
        with name_in_errors("standard output" if file is sys.stdout else file.name):
            file.write(text)
            file.flush()
    except OSError:
        if file is not sys.stdout:
            with contextlib.suppress(OSError):
                file.close()  # otherwise closing the file later would raise the error again, without its name
        raise


def _keep_finished_lines(partial: LockedFile) -> None:
    """Prints the path of a file with finished lines; removes the file if it is empty."""
    with contextlib.suppress(OSError):
        if partial.is_at_path() and partial.path.stat().st_size:
            say(f"transduce: finished lines are kept in {partial.path}")
            partial.close()
        else:
            partial.discard()
