"""Turns exceptions into the messages and exit codes of the command line."""

import errno
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from transduce.commands.console import progress_on_terminal, say, show_log_records
from transduce.commands.output_file import release_outputs
from transduce.runtime.signals import Interrupted, OtherProcessError, raise_on_sigterm
from transduce.storage.nearby_paths import did_you_mean_path
from transduce.storage.result_files import name_in_errors


def with_exit_codes(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps `command` so that an exception prints a message and becomes an exit code."""

    @functools.wraps(command)
    def wrapper(*arguments: Any, **options: Any) -> None:
        try:
            if sys.stdout is None:
                raise OSError("standard output is closed; send it to a file, or to /dev/null")
            show_log_records()
            with raise_on_sigterm(), progress_on_terminal(), release_outputs():
                command(*arguments, **options)
            with name_in_errors("standard output"):
                sys.stdout.flush()  # now, because a closed pipe would otherwise cause an error at exit
        except (typer.Exit, SystemExit):
            raise
        except BaseException as error:
            raise typer.Exit(_report(error)) from None

    return wrapper


def _report(error: BaseException) -> int:
    """Prints the message of an error and returns the exit code.

    If the environment variable TRANSDUCE_DEBUG is 1, the traceback is printed as well. Nothing is printed if a signal
    has ended the command, if the reader of its output has closed the pipe, or if another process of the run has failed.
    """
    match error:
        case KeyboardInterrupt():
            return 128 + signal.SIGINT
        case Interrupted():
            return 128 + error.number
        case BrokenPipeError():
            return 0  # the reader of the output, for example `head`, does not need any more
        case OtherProcessError():
            return 1
        case OSError() if error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            is_missing = isinstance(error, FileNotFoundError) and isinstance(error.filename, str)
            meant = did_you_mean_path(Path(error.filename)) if is_missing else ""
            remedy = "; make room, then give the command again" if error.errno == errno.ENOSPC else meant
            message, code = f"{where}{error.strerror.lower()}{remedy}", 2
        case ValueError() | OSError():
            message, code = str(error), 2
        case RuntimeError():
            message, code = str(error), 1
        case _:
            message, code = f"{type(error).__name__}: {error}", 1
    if os.environ.get("TRANSDUCE_DEBUG") == "1":
        traceback.print_exception(error)
    say(f"transduce: {message}")
    return code
