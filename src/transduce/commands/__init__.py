"""The command line: one module a verb, each imported only when its verb is called, so that starting is quick."""

import importlib
import os
import signal
import sys
import traceback
from typing import Any

import click
import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

VERBS = {
    "demo": "Train on the embedded corpus, measure, translate, draw: everything once, in ten minutes.",
    "embedded": "Write the English–German corpus that comes with the package.",
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
    "bench": "Measure the speed of training or of translating.",
}


class _Verbs(TyperGroup):
    """Knows every verb by name and summary, and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of a first acquaintance."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command; a bare summary where only the list of verbs is wanted."""
        if cmd_name not in VERBS:
            return None
        if ctx.resilient_parsing or cmd_name not in sys.argv:
            return click.Command(cmd_name, help=VERBS[cmd_name])
        verb = getattr(importlib.import_module(f"transduce.commands.{cmd_name}"), cmd_name)
        return get_command_from_info(
            CommandInfo(name=cmd_name, callback=verb, help=VERBS[cmd_name]),
            pretty_exceptions_short=True,
            rich_markup_mode=None,
        )


def _version(wanted: bool) -> None:
    if wanted:
        from transduce import __version__

        print(f"transduce {__version__}")
        raise typer.Exit


def _callback(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """The Transformer of "Attention Is All You Need": train, translate, measure, look inside."""


app = typer.Typer(cls=_Verbs, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.callback()(_callback)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and leaves with its exit code: 0 done, 1 failed, 2 the user's to mend, 128 + n signal n."""
    sys.exit(_code(lambda: app(args=arguments, standalone_mode=False)))


def _code(call: Any) -> int:
    """The exit code of `call`, with its message on standard error; a traceback only where TRANSDUCE_DEBUG is 1."""
    try:
        result = call()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read our output has enough. Nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        return _told(error, str(error) if isinstance(error, ValueError) else _os_error(error), 2)
    except Exception as error:
        return _told(error, f"{error}" if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}", 1)


def _told(error: BaseException, message: str, code: int) -> int:
    """Says what went wrong; gives `code`."""
    if os.environ.get("TRANSDUCE_DEBUG") == "1":
        traceback.print_exception(error)
    print(f"transduce: {message}", file=sys.stderr)
    return code


def _os_error(error: OSError) -> str:
    """A file's trouble in words, its name first."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{(error.strerror or str(error)).lower()}"
