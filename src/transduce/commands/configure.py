"""`transduce configure`: shows and changes the decoding settings of a finished model."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import aligned_table, say
from transduce.commands.options import JsonOption, complete_key
from transduce.runtime.json_text import json_text

EXAMPLES = "decoding.beam=5, or decoding.no_repeat_ngram=4"


def complete_decoding_key(incomplete: str) -> list[str]:
    """Returns the keys of `decoding` that begin with `incomplete`, for the shell."""
    return [key for key in complete_key(incomplete) if key.startswith("decoding.")]


def configure(
    run: Annotated[Path, typer.Argument(help="A model directory.")],
    change: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=f"Change a setting, such as {EXAMPLES}.",
            autocompletion=complete_decoding_key,
        ),
    ] = [],  # noqa: B006
    as_json: JsonOption = False,
) -> None:
    """Shows the settings with which a model translates or parses; --set changes them, without any training."""
    from transduce.model_directory import fingerprint
    from transduce.recipe.decoding import change_decoding
    from transduce.translation.confidence import CONFIDENCE

    before = fingerprint(run)
    decoding = change_decoding(run, change).as_dictionary()
    if fingerprint(run) != before and (run / CONFIDENCE).exists():
        say(f"note: {run / CONFIDENCE} is of the earlier settings: make it again with `transduce calibrate {run}`")
    if as_json:
        print(json_text({"decoding": decoding}, indent=2))
        return
    print(aligned_table([(f"decoding.{key}", json_text(value)) for key, value in decoding.items()]))
