"""`transduce fetch`: gets the corpora that the recipes name."""

import os
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.runtime.json_text import json_text


def fetch(
    name: Annotated[str, typer.Argument(help="A corpus: wmt14-en-de, wmt14-en-fr or multi30k.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the corpus goes; by default the folder that TRANSDUCE_DATA names.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR|hub",
            help="A folder of yours that has the archives or the texts, or `hub`; by default mirrors are asked.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Downloads a corpus, unpacks and cleans it; the same command again goes on where it stopped."""
    from transduce.fetch import fetch

    folder = out or _folder_of_the_recipes()
    parts = fetch(name, folder, origin, say)
    if as_json:
        print(json_text({"corpus": name, "folder": str(folder / name), "parts": parts}, indent=2))
        return
    for part in parts.values():
        for file, entry in part["files"].items():
            print(f"{folder / name / file}: {part['kept']:,} lines, {entry['bytes']:,} bytes")
    if not os.environ.get("TRANSDUCE_DATA") or folder.resolve() != Path(os.environ["TRANSDUCE_DATA"]).resolve():
        say(f"the recipes look for it by TRANSDUCE_DATA: export TRANSDUCE_DATA={folder.resolve()}")


def _folder_of_the_recipes() -> Path:
    if folder := os.environ.get("TRANSDUCE_DATA"):
        return Path(folder)
    raise ValueError(
        "no folder to put the data into: add `--out DIR`, or name one for the recipes too: `export TRANSDUCE_DATA=DIR`"
    )
