"""`transduce prepare`: learns the subwords of a recipe and writes its token store."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.options import SetOption


def prepare(
    recipe: Annotated[Path, typer.Argument(help="A recipe (YAML).")],
    out: Annotated[Path, typer.Option(help="The run directory that will be trained.")],
    change: SetOption = [],  # noqa: B006
) -> None:
    """Learns the subwords and writes the token store, which `train` with the same `--out` reads."""
    from transduce.recipe import load
    from transduce.storage.locks import exclusive_lock
    from transduce.trainer.train import prepare

    loaded = load(recipe, change)
    with exclusive_lock(out, "training"):
        prepared = prepare(loaded, out, say)
    print(f"{prepared.directory}: {len(prepared.train):,} pairs, {prepared.source.size:,} subwords")
