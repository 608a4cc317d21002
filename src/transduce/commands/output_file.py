"""Checks, locks and writes the output of a command, which is a file or standard output.

An output file is checked before the command starts to work, so that a file that cannot be written does not cost hours
of work.
"""

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
    """The locks on the output files of one command, and the option that names each file."""

    locks: contextlib.ExitStack
    options: dict[Path, str]


_commands: list[LockedOutputs] = []


@contextlib.contextmanager
def release_outputs() -> Iterator[None]:
    """Releases, at the end of the context, all locks that `lock_output` has taken within it.

    The context encloses the run of one command.
    """
    with contextlib.ExitStack() as locks:
        _commands.append(LockedOutputs(locks, {}))
        try:
            yield
        finally:
            _commands.pop()


def lock_output(out: Path, option: str = "--out") -> None:
    """Locks an output file until the command ends.

    Raises LockHeldError if another command is writing the file. Raises ValueError if this command has locked it for
    another option, or if this user is not allowed to replace it. Pipes and devices may be named by several options.
    """
    if not _commands:
        return
    locks, options = _commands[-1]
    target = out.resolve()
    if target in options and (is_replaceable(out) or out.is_file()):
        raise ValueError(f"{options[target]} and {option} name the same file, {out}; name another file")
    for path in (target, _partial_path(out)) if is_replaceable(out) else ():
        if path.exists() and not may_replace(path):  # otherwise the error would occur only after the work
            raise ValueError(f"{option} {NotRemovableError(path)}")
    try:
        locks.enter_context(output_lock(out))
    except LockHeldError as error:
        raise LockHeldError(f"{option} {error}") from None
    options[target] = option


def check_writable(
    out: Path | None, *, overwrite: bool = False, option: str = "--out", inputs: Iterable[Path | str | None] = ()
) -> None:
    """Creates the folder of `out`, checks that `out` can be written, and locks it.

    Raises ValueError if no file can be written there, if `out` is one of the `inputs`, or if another command is writing
    it. Without `overwrite`, also raises ValueError if `out` is a file with content, or if a stopped command has left
    lines in OUT.partial. The message names `option`. Pipes and devices do not need `overwrite`.
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
    # These checks follow the locking of the file, because until then another command may have written it.
    if not overwrite and out.is_file() and out.stat().st_size:
        raise ValueError(f"{option} {out}: the file exists already; add --overwrite to replace it")
    partial = _partial_path(out)
    if not overwrite and is_replaceable(out) and partial.exists() and partial.stat().st_size:
        raise ValueError(f"{partial}: holds the lines of a stopped command; move it, or add --overwrite to replace it")


def check_name(out: Path, option: str = "--out") -> None:
    """Raises ValueError if the names of the temporary files of `out` would be too long for the file system."""
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
    """Returns the path of the file that contains the finished lines while `out` is incomplete."""
    return out.resolve().with_name(f"{out.name}.partial")


@contextlib.contextmanager
def open_output(out: Path | None) -> Iterator[Callable[[str], None]]:
    """Yields a function that writes whole lines to `out`, or to standard output if `out` is None, and flushes them.

    A file is written under the name OUT.partial, and renamed to OUT at the end. If an error, Ctrl-C or SIGTERM ends the
    context, OUT.partial is kept if it contains lines, and a message names it. Pipes and devices are written directly.
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
    """Writes a text to a file and flushes it; if that fails, the error names the file."""
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
    """Closes a file with finished lines and prints its path, or removes the file if it is empty."""
    with contextlib.suppress(OSError):
        if partial.is_at_path() and partial.path.stat().st_size:
            say(f"transduce: finished lines are kept in {partial.path}")
            partial.close()
        else:
            partial.discard()
