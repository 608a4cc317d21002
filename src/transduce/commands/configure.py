"""`transduce configure`: shows and changes the decoding settings of a finished model."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import aligned_table
from transduce.commands.options import JsonOption
from transduce.runtime.json_text import json_text

EXAMPLES = "decoding.beam=5, or decoding.no_repeat_ngram=4"


def configure(
    run: Annotated[Path, typer.Argument(help="A model directory.")],
    change: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help=f"Change a setting, such as {EXAMPLES}.")
    ] = [],  # noqa: B006
    as_json: JsonOption = False,
) -> None:
    """Shows the settings with which a model translates or parses; --set changes them, without any training."""
    from transduce.recipe.decoding import change_decoding

    decoding = change_decoding(run, change).as_dictionary()
    if as_json:
        print(json_text({"decoding": decoding}, indent=2))
        return
    print(aligned_table([(f"decoding.{key}", json_text(value)) for key, value in decoding.items()]))
