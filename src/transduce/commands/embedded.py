"""`transduce embedded`: writes the English–German corpus that comes with the package."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.options import OverwriteOption
from transduce.commands.output import check_writable


def embedded(
    split: Annotated[str, typer.Option(help="The part of the corpus: train, validation, test or novel.")] = "train",
    out: Annotated[Path | None, typer.Option(help="The directory to write into.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other sentences.")] = 1,
    count: Annotated[int | None, typer.Option(help="Number of sentences; the whole split if not given.")] = None,
    overwrite: OverwriteOption = False,
    count_derivations: Annotated[bool, typer.Option(help="Only print the grammar's number of derivations.")] = False,
) -> None:
    """Writes `source.en`, `target.de`, `trees.en` and `alignments` of a split; prints their paths."""
    from transduce import embedded as corpus

    if count_derivations:
        print(corpus.count_derivations())
        return
    if out is None:
        raise ValueError("no directory to write into; add `--out DIR`")
    for name in corpus.FILES:
        check_writable(out / name, overwrite=overwrite)
    for path in corpus.write(split, out, seed=seed, count=count):
        print(path)
