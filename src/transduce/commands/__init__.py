"""The command line: one module a verb, each imported only when its verb is called, so that starting is quick."""

import difflib
import functools
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from transduce.commands.console import escape_on_terminal, let_go, progress_on_terminal, say, show_log_records
from transduce.runtime.signals import Interrupted, OtherProcessError
from transduce.storage.named_errors import name_in_errors

VERBS = {
    "demo": "Train on the embedded corpus, measure, translate, draw: everything once, in ten minutes.",
    "embedded": "Write the English–German corpus that comes with the package.",
    "fetch": "Get a public corpus that the recipes name.",
    "prepare": "Learn the subwords and write the store of a recipe.",
    "train": "Train a recipe; the same command again goes on where it stopped.",
    "translate": "Translate lines of text; several models are an ensemble.",
    "score": "Log-probability of each given translation.",
    "evaluate": "Translate a test set and measure the result.",
    "measure": "Score any output against references; compare two outputs.",
    "average": "Average the weights of a run's checkpoints.",
    "draw": "Draw where every layer and head looks.",
    "info": "Shape, parameters and arithmetic of a preset, recipe or run.",
    "verify": "Check every file of a model directory.",
    "paper": "Reproduce the tables of the paper.",
    "bench": "Measure the speed of training or of translating.",
}

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class _Verbs(TyperGroup):
    """Knows every verb by name and summary, and imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs, in the order of a first acquaintance."""
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of verbs in `--help`, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb's command; a usage error with the nearest verb for any other word."""
        if cmd_name not in VERBS:
            near = difflib.get_close_matches(cmd_name, VERBS, n=1)
            ctx.fail(f"there is no command `{cmd_name}`" + (f"; did you mean `{near[0]}`?" if near else ""))
        verb = getattr(importlib.import_module(f"transduce.commands.{cmd_name}"), cmd_name)
        info = CommandInfo(name=cmd_name, callback=_guarded(verb), help=VERBS[cmd_name])
        info.context_settings = HELP_OPTIONS
        return get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)


def _version(wanted: bool) -> None:
    if wanted:
        from transduce import __version__

        print(f"transduce {__version__}")
        raise typer.Exit


def _callback(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """The Transformer of "Attention Is All You Need": train, translate, measure, look inside."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app = typer.Typer(cls=_Verbs, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=HELP_OPTIONS)
app.callback(invoke_without_command=True)(_callback)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and leaves with its exit code: 0 done, 1 failed, 2 the user's to mend, 128 + n signal n."""
    # UTF-8, as what is read, whatever the terminal's language; a path that is none is printed as it is.
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - what is said goes nowhere, not to standard output
    escape_on_terminal(sys.stdout)
    try:
        app(args=arguments)
    finally:
        let_go(sys.stdout)
        let_go(sys.stderr)


def _guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """`verb`, with a message and an exit code for whatever it raises."""

    @functools.wraps(verb)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            if sys.stdout is None:
                raise OSError("standard output is closed; send it to a file, or to /dev/null")
            show_log_records()
            with progress_on_terminal():
                verb(*arguments, **options)
            with name_in_errors("standard output"):
                sys.stdout.flush()  # here and not at exit, where a reader that has left would be an error
        except (typer.Exit, SystemExit):
            raise
        except BaseException as error:
            raise typer.Exit(_code_of(error)) from None

    return guarded


def _code_of(error: BaseException) -> int:
    """Says what went wrong, and gives the exit code; a traceback only where TRANSDUCE_DEBUG is 1."""
    match error:
        case KeyboardInterrupt():
            return 128 + signal.SIGINT
        case Interrupted():
            return 128 + error.number
        case BrokenPipeError():
            return 0  # whoever read our output has enough
        case OtherProcessError():
            return 1
        case ValueError():
            return _told(error, str(error), 2)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return _told(error, f"{where}{error.strerror.lower()}" if error.strerror else str(error), 2)
        case RuntimeError():
            return _told(error, str(error), 1)
    return _told(error, f"{type(error).__name__}: {error}", 1)


def _told(error: BaseException, message: str, code: int) -> int:
    """Says what went wrong; gives `code`."""
    if os.environ.get("TRANSDUCE_DEBUG") == "1":
        traceback.print_exception(error)
    say(f"transduce: {message}")
    return code
