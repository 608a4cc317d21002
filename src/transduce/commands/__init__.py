"""The command line interface.

Each command has a module of its own, which is imported only when the command is called, so that the program starts
quickly.
"""

import importlib
import io
import keyword
import os
import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from transduce.commands.console import escaped_on_terminal, flush_or_discard
from transduce.commands.exit_codes import with_exit_codes

GROUPS = {
    "Begin": {
        "demo": "Train a model on the embedded corpus, score it and show examples, in six to ten minutes.",
        "fetch": "Download a public corpus for the recipes, or write out the corpus embedded in this package.",
    },
    "Text": {
        "inspect": "Find faults in a corpus, such as untranslated lines, wrong languages, duplicates and misalignment.",
        "split": "Split a corpus into training, validation and test sets that share no near-duplicates.",
    },
    "Train": {
        "suggest": "Find a recipe for a corpus and a time budget by short training runs on this machine.",
        "train": "Train a model from a recipe; repeat the command to resume a stopped run.",
        "distil": "Train a smaller student model on the translations of a teacher model.",
        "average": "Average the weights of a run's checkpoints.",
    },
    "Translate and parse": {
        "translate": "Translate text line by line; several models form an ensemble.",
        "translate-document": "Translate HTML, DOCX, subtitles, plain text and other formats sentence by sentence.",
        "translate-corpus": "Translate large files shard by shard, optionally into training pairs.",
        "parse": "Parse sentences into trees; several models form an ensemble.",
        "score": "Print the log-probability that a model assigns to each given translation.",
        "calibrate": "Calibrate the confidence in a model's translations on its validation set.",
        "serve": "Serve translations over HTTP; clients of LibreTranslate work unchanged.",
    },
    "Measure and compare": {
        "evaluate": "Translate or parse a test set, and score the result.",
        "measure": "Score the outputs of any system against references; compare several and show where they differ.",
        "report": "Write a report on models: training, scores, lengths, sample sentences, attention and settings.",
        "draw": "Draw the attention weights of every layer and head, or a parse tree.",
    },
    "Models": {
        "info": "Show the size and settings of a preset, recipe or run; change a run's decoding or verify its files.",
        "import": "Convert an OPUS-MT, fairseq or Marian model to a model directory.",
        "export": "Export a model for another engine, such as CTranslate2 or Hugging Face.",
    },
    "The paper and speed": {
        "paper": "Reproduce the tables of the paper and test its claims.",
        "bench": "Measure the speed of training or translation.",
    },
}
"""The commands and their summaries, grouped by purpose; `--help` and docs/commands.md list them in this order."""

VERBS = {verb: summary for group in GROUPS.values() for verb, summary in group.items()}

OTHER_NAMES = {
    **dict.fromkeys(("generate", "interactive", "decode", "infer"), "`transduce translate RUN FILE`"),
    **dict.fromkeys(("prepare", "preprocess", "build-vocab"), "`transduce train RECIPE --out RUN --prepare`"),
    **dict.fromkeys(("augment", "back-translate"), "`transduce translate-corpus RUN TEXT --pairs backward --out FILE`"),
    "compare": "`transduce measure --differences`, or `transduce report` for models",
    "configure": "`transduce info RUN --set decoding.KEY=VALUE`",
    "verify": "`transduce info RUN --verify`",
    **dict.fromkeys(("explain", "attention", "visualize", "plot"), "`transduce draw RUN SENTENCE --out FILE.html`"),
    "download": "`transduce fetch NAME`",
    "help": "`transduce COMMAND --help`",
    "version": "`transduce --version`",
    "benchmark": "`transduce bench`",
    **dict.fromkeys(("bleu", "sacrebleu"), "`transduce measure --reference FILE FILE`"),
    **dict.fromkeys(("test", "eval", "validate"), "`transduce evaluate RUN --test NAME`"),
    **dict.fromkeys(
        ("convert", "average-checkpoints"), "`transduce export`, `transduce import` or `transduce average`"
    ),
}
"""Maps names of commands that do not exist here, but that users of other toolkits may try, to what to type instead."""

OTHER_OPTIONS = {
    **dict.fromkeys(("--beam-size", "--num-beams"), "--beam N"),
    **dict.fromkeys(
        ("--input", "--source-file", "--src"), "the file without an option: `transduce translate RUN FILE`"
    ),
    **dict.fromkeys(("--output", "--output-file"), "--out FILE"),
    **dict.fromkeys(("--model", "--model-dir"), "the model directory without an option"),
    "--sample": "--temperature 1",
    "--batch-size": "--set training.batch_tokens=VALUE, which counts tokens, not sentences",
    "--recipe": "the recipe without an option: `transduce train RECIPE --out RUN`",
    **{
        f"--{name}": f"--set training.{key}=VALUE"
        for name, key in {
            **{key: key for key in ("steps", "epochs", "minutes", "patience", "seed")},
            **dict.fromkeys(("lr", "learning-rate"), "schedule.peak"),
            **dict.fromkeys(("max-tokens", "batch-tokens"), "batch_tokens"),
            **dict.fromkeys(("max-steps", "train-steps"), "steps"),
        }.items()
    },
}
"""Maps options of other toolkits, and options for settings that belong in the recipe, to what to write instead."""

NEEDLESS_OPTIONS = {
    "--from": "the source has the language of the model; --to is for models with several",
    "--lines": "each line is one sentence already",
    **dict.fromkeys(("--resume", "--continue"), "the same command resumes a stopped run"),
}
"""Maps options that other toolkits have, but that are not needed here, to the reason why."""

PLAIN_MESSAGES = {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1", "PYTHON_COLORS": "0"}
"""Environment variables that stop numba's errors and Python 3.13's tracebacks from writing colours to any stream."""

# `color=True` keeps click from removing escape sequences from its messages, because we print them as visible escapes.
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "color": True}


def python_name(verb: str) -> str:
    """Converts a command's name to the name of its module and function, for example `import` to `import_`."""
    return f"{verb}_" if keyword.iskeyword(verb) else verb.replace("-", "_")


class _Commands(TyperGroup):
    """A command group that lists every command with its summary, but imports only the command that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of the commands in the order of `VERBS`."""
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes one section of the help text for each group of commands."""
        widest = max(map(len, VERBS))
        for name, verbs in GROUPS.items():
            with formatter.section(name):
                formatter.write_dl([(verb.ljust(widest), summary) for verb, summary in verbs.items()])

    def invoke(self, ctx: Any) -> Any:
        """Runs a command, and rewrites its usage errors so that they tell the user what to do.

        Messages about invalid values are put into plain words. The message about a missing argument ends with an
        example, and the message about an option of another toolkit names what to write instead.
        """
        try:
            return super().invoke(ctx)
        except Exception as error:  # an unknown option raises an error with `option_name`, whose class typer hides
            if isinstance(message := getattr(error, "message", None), str):
                from transduce.settings import PLAIN_WORDS

                for words, plain in PLAIN_WORDS.items():
                    message = message.replace(words, plain).replace(words.capitalize(), plain)
                vars(error)["message"] = message
            called = getattr(error, "ctx", None) or ctx
            option = getattr(error, "option_name", "")
            meant = OTHER_OPTIONS.get(option, "")
            has_settings = any("--set" in parameter.opts for parameter in called.command.params)
            usage = error.format_message() if hasattr(error, "format_message") else ""
            if type(error).__name__ == "MissingParameter" and called.command.name in VERBS:
                from transduce.commands.examples import EXAMPLES

                called.fail(f"{usage.rstrip('.')}; for example: {EXAMPLES[called.command.name][0]}")
            if "unexpected extra argument" in usage and called.command.name == "draw":
                called.fail(f"{usage}; put the sentence into quotes")
            if meant and (has_settings or not meant.startswith("--set")):
                called.fail(f"there is no option {option}; write {meant}")
            if option in NEEDLESS_OPTIONS:
                called.fail(f"there is no option {option}; leave it out: {NEEDLESS_OPTIONS[option]}")
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Imports and returns the command called `cmd_name`.

        Reports an unknown name as a usage error that suggests the closest command. During shell completion, returns
        None instead.
        """
        if cmd_name not in VERBS and ctx.resilient_parsing:
            return None  # a shell is asking for completions
        if cmd_name not in VERBS:
            from transduce.settings import did_you_mean

            is_other = cmd_name in OTHER_NAMES
            hint = f"; it is {OTHER_NAMES[cmd_name]}" if is_other else did_you_mean(cmd_name, VERBS)
            ctx.fail(f"there is no command `{cmd_name}`{hint}")
        name = python_name(cmd_name)
        function = getattr(importlib.import_module(f"transduce.commands.{name}"), name)
        # Imported here, because `--help` of the whole program does not need it.
        from transduce.commands.options import spread, use_plain_help

        spread_function = spread(function)
        info = CommandInfo(name=cmd_name, callback=with_exit_codes(spread_function), help=VERBS[cmd_name])
        info.context_settings = CONTEXT_SETTINGS
        command = get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)
        use_plain_help(command, spread_function)
        return command


def _print_version(wanted: bool) -> None:
    if wanted:
        from transduce import __version__

        print(f"transduce {__version__}")
        raise typer.Exit


def _callback(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """The Transformer of "Attention Is All You Need": train, use, evaluate and analyse translation models."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app = typer.Typer(
    cls=_Commands, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=CONTEXT_SETTINGS
)
app.callback(invoke_without_command=True)(_callback)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line, then exits.

    The exit code is 0 on success, 1 on failure, 2 if the input, the settings or a file is at fault, and 128 + n after
    signal n.
    """
    # Like the input, the output is UTF-8 with line feeds on every locale and operating system. A path that is not UTF-8
    # is written unchanged to standard output, and with escapes to standard error.
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors, newline="\n")
    if sys.stderr is None:  # standard error is closed, but messages must not go to standard output instead
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open until the process ends
    sys.stdout, sys.stderr = escaped_on_terminal(sys.stdout), escaped_on_terminal(sys.stderr)
    for name, value in PLAIN_MESSAGES.items():
        os.environ.setdefault(name, value)
    try:
        app(args=arguments)
    finally:
        flush_or_discard(sys.stdout)
        flush_or_discard(sys.stderr)
