"""The command line: one module per command, imported only when the command is called, so that it starts fast."""

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
        "demo": "Train on the embedded corpus, measure, translate or parse, and draw, in ten minutes.",
        "fetch": "Download a public corpus that the recipes use, or write the one of this package.",
    },
    "Text": {
        "inspect": "Show the faults of a corpus: copies, wrong languages, duplicates, lines out of step and others.",
        "split": "Take validation and test sets out of a corpus, without near-duplicates across.",
    },
    "Train": {
        "suggest": "Write a recipe for a corpus, this machine and a number of minutes, by short trainings.",
        "train": "Train a recipe; the same command resumes a stopped training.",
        "distil": "Train a smaller model on the translations of a good one.",
        "average": "Average the weights of a run's checkpoints.",
    },
    "Translate and parse": {
        "translate": "Translate lines of text; several models are an ensemble.",
        "translate-document": "Translate HTML, DOCX, subtitles and others, or text, sentence by sentence.",
        "translate-corpus": "Translate large files shard by shard, also into pairs to train on.",
        "parse": "Parse sentences into trees; several models are an ensemble.",
        "score": "Print the log-probability of each given translation.",
        "calibrate": "Fit the confidence in a model's translations to its validation set.",
        "serve": "Translate for clients over HTTP, such as those of LibreTranslate.",
    },
    "Measure and compare": {
        "evaluate": "Translate or parse a test set and measure the result.",
        "measure": "Score any output against references; compare outputs, and show where they differ.",
        "report": "Write a page about models: trainings, scores, lengths, sentences, attention, settings.",
        "draw": "Draw the attention of every layer and head, or a parse tree.",
    },
    "Models": {
        "info": "Show parameters and settings of a preset, recipe or run; change its beam, check its files.",
        "import": "Make a model directory of a model of OPUS-MT, fairseq or Marian.",
        "export": "Write a model for another engine, such as CTranslate2 or Hugging Face.",
    },
    "The paper and speed": {
        "paper": "Reproduce the tables of the paper.",
        "bench": "Measure the speed of training or of translating.",
    },
}
"""The commands by purpose, each with one sentence, in the order of `--help` and of docs/commands.md."""

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
"""What to type instead of commands of other toolkits, and for work that another command does here."""

OTHER_OPTIONS = {
    **dict.fromkeys(("--beam-size", "--num-beams"), "--beam N"),
    **dict.fromkeys(
        ("--input", "--source-file", "--src"), "the file without an option: `transduce translate RUN FILE`"
    ),
    **dict.fromkeys(("--output", "--output-file"), "--out FILE"),
    **dict.fromkeys(("--model", "--model-dir"), "the model directory without an option"),
    "--sample": "--temperature 1",
    "--recipe": "the recipe without an option: `transduce train RECIPE --out RUN`",
    **{
        f"--{name}": f"--set training.{key}=VALUE"
        for name, key in {
            **{key: key for key in ("steps", "epochs", "minutes", "patience", "seed")},
            **dict.fromkeys(("lr", "learning-rate"), "schedule.peak"),
            **dict.fromkeys(("batch-size", "max-tokens", "batch-tokens"), "batch_tokens"),
            **dict.fromkeys(("max-steps", "train-steps"), "steps"),
        }.items()
    },
}
"""What to write instead of options of other toolkits, or instead of options for recipe settings."""

NEEDLESS_OPTIONS = {
    "--from": "the source has the language of the model; --to is for models with several",
    "--lines": "each line is one sentence already",
    **dict.fromkeys(("--resume", "--continue"), "the same command resumes a stopped run"),
}
"""Why options that other toolkits have are not needed."""

PLAIN_MESSAGES = {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1", "PYTHON_COLORS": "0"}
"""Switches off colours that are written to any stream: in numba's errors and in tracebacks of Python 3.13."""

# `color`: click removes escape sequences from its messages unless it may write colours; we show them as escapes.
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "color": True}


def python_name(verb: str) -> str:
    """Name of a command's module and function: the verb in words that Python does not reserve."""
    return f"{verb}_" if keyword.iskeyword(verb) else verb.replace("-", "_")


class _Commands(TyperGroup):
    """Lists every command with its summary, and imports only the command that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands in the order of `VERBS`."""
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands of each group in `--help`."""
        widest = max(map(len, VERBS))
        for name, verbs in GROUPS.items():
            with formatter.section(name):
                formatter.write_dl([(verb.ljust(widest), summary) for verb, summary in verbs.items()])

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; words errors about its values plainly, and says what an unknown option is called here."""
        try:
            return super().invoke(ctx)
        except Exception as error:  # an error with `option_name` is an unknown option; typer hides the class
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
        """Imports a command; an unknown name is a usage error that names the nearest command."""
        if cmd_name not in VERBS and ctx.resilient_parsing:
            return None  # a shell asks for completions
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
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    """The Transformer of "Attention Is All You Need": train, translate, measure, look inside."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app = typer.Typer(
    cls=_Commands, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=CONTEXT_SETTINGS
)
app.callback(invoke_without_command=True)(_callback)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits: 0 done, 1 failed, 2 faulty input, settings or files, 128 + n after signal n."""
    # UTF-8 and line feeds, like the input, on any locale and system; a path that is not UTF-8 is printed byte by byte.
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors, newline="\n")
    if sys.stderr is None:  # it is closed; messages must not go to standard output instead
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open until the process ends
    sys.stdout, sys.stderr = escaped_on_terminal(sys.stdout), escaped_on_terminal(sys.stderr)
    for name, value in PLAIN_MESSAGES.items():
        os.environ.setdefault(name, value)
    try:
        app(args=arguments)
    finally:
        flush_or_discard(sys.stdout)
        flush_or_discard(sys.stderr)
