"""`transduce prepare`."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def prepare(
    recipe: Annotated[Path, typer.Argument(help="A recipe (YAML).")],
    out: Annotated[Path, typer.Option(help="The directory of the run that will be trained.")],
    change: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")] = [],  # noqa: B006
) -> None:
    """Learns the subwords and writes the store; `train --out` the same directory finds them there."""
    from transduce.recipe import load
    from transduce.run import prepare

    prepared = prepare(load(recipe, change), out, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"{prepared.directory}: {len(prepared.train):,} pairs, {prepared.source.size:,} subwords")
