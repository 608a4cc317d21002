"""`transduce import`: converts a model from another toolkit to a model directory."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say


def import_(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with an OPUS-MT, fairseq or Marian model.")],
    *,
    out: Annotated[Path, typer.Option(help="Model directory to write.")],
    source_language: Annotated[
        str | None, typer.Option("--from", help="Source language code, if the folder does not state it.")
    ] = None,
    target_language: Annotated[
        str | None, typer.Option("--to", help="Target language code, if the folder does not state it.")
    ] = None,
) -> None:
    """Converts a model from another toolkit to a model directory, without running any code from its folder."""
    from transduce.exchange.import_model import import_model

    config = import_model(model, out, source_language, target_language)
    if config.source_language is None or config.target_language is None:
        say("its languages are not known: `--from` and `--to` state them")
    print(f"{out}: {config.model.d_model} features wide, {config.vocabulary.target:,} target subwords")
    say(f"no licence was checked; {out / 'README.md'} states the files that it was read from")
