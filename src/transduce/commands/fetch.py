"""`transduce fetch`: downloads the corpora that the recipes use."""

import os
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.options import JsonOption
from transduce.runtime.json_text import json_text


def fetch(
    name: Annotated[str, typer.Argument(help="Name of the corpus: wmt14-en-de, wmt14-en-fr, multi30k or embedded.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder in which to create the folder NAME (default: $TRANSDUCE_DATA).")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR|hub",
            help="Local folder with the archives or texts, or `hub` for Hugging Face (default: mirrors).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Downloads, unpacks and cleans a corpus; repeating the command resumes a download that was stopped."""
    from transduce.fetch import fetch, read_catalogue

    if name != "embedded":
        read_catalogue().find(name)
    data = os.environ.get("TRANSDUCE_DATA")
    if out is None and not data:
        raise ValueError(
            "no folder for the data: add `--out DIR`, or set the folder for the recipes too: "
            "`export TRANSDUCE_DATA=DIR`"
        )
    folder = out or Path(str(data))
    if name == "embedded":
        write_embedded(folder / name)
        return
    parts = fetch(name, folder, origin)
    if as_json:
        print(json_text({"corpus": name, "folder": str(folder / name), "parts": parts}, indent=2))
        return
    for part in parts.values():
        for file, entry in part["files"].items():
            print(f"{folder / name / file}: {part['kept']:,} lines, {entry['bytes']:,} bytes")
    if not data or folder.resolve() != Path(data).resolve():
        say(f"the recipes look for it in TRANSDUCE_DATA: export TRANSDUCE_DATA={folder.resolve()}")


def write_embedded(folder: Path) -> None:
    """Writes the files `source.en`, `target.de`, `trees.en` and `alignments` for each split of the embedded corpus.

    Raises ValueError if one of the files exists already.
    """
    from transduce.embedded import FILES, SPLITS, write

    for path in (folder / part / file for part in SPLITS for file in FILES):
        if path.exists():
            raise ValueError(f"{path}: the file exists already; choose another folder for --out")
    for part in SPLITS:
        for path in write(part, folder / part):
            print(path)
