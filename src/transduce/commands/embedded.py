"""`transduce embedded`: writes the corpus we carry."""

from pathlib import Path
from typing import Annotated

import typer


def embedded(
    split: Annotated[str, typer.Option(help="Which part: train, validation, test or novel.")] = "train",
    out: Annotated[Path | None, typer.Option(help="The directory to write into.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other sentences.")] = 1,
    count: Annotated[int | None, typer.Option(help="How many sentences; by default the whole split.")] = None,
    count_derivations: Annotated[bool, typer.Option(help="Only say how many derivations the grammar has.")] = False,
) -> None:
    """Write source.en, target.de, trees.en and alignments of the English–German corpus that comes with transduce."""
    from transduce import embedded as corpus

    if count_derivations:
        print(corpus.count_derivations())
        return
    if out is None:
        raise ValueError("no directory to write into; add `--out DIR`")
    for path in corpus.write(split, out, seed=seed, count=count):
        print(path)
