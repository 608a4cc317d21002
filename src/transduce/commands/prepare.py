"""`transduce prepare`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say


def prepare(
    recipe: Annotated[Path, typer.Argument(help="A recipe (YAML).")],
    out: Annotated[Path, typer.Option(help="The directory of the run that will be trained.")],
    change: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")] = [],  # noqa: B006
) -> None:
    """Learns the subwords and writes the store; `train --out` the same directory finds them there."""
    from transduce.recipe import load
    from transduce.storage.locks import exclusive_lock
    from transduce.trainer.train import prepare

    loaded = load(recipe, change)
    with exclusive_lock(out, "training"):
        prepared = prepare(loaded, out, say)
    print(f"{prepared.directory}: {len(prepared.train):,} pairs, {prepared.source.size:,} subwords")
