"""The training text of a run, as text."""

import contextlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from transduce.corpus import CorpusSpec, DataSpec, read_byte_pairs
from transduce.model_directory import RECIPE
from transduce.recipe import read_yaml
from transduce.settings import validated

__all__ = ["MAX_PAIRS", "training_pairs"]

MAX_PAIRS = 100_000  # of all corpora together


def training_pairs(run: Path, corpus: CorpusSpec) -> Iterator[tuple[str, str]]:
    """Yields the first pairs of the training corpora that have the direction of `corpus`, as many of each corpus.

    Raises ValueError and OSError where the recipe of `run` or a corpus cannot be read.
    """
    data = validated(DataSpec, read_yaml(run / RECIPE).get("data", {}), place=str(run / RECIPE))
    direction = data.direction_of(corpus)
    corpora = [one for one in data.train if data.direction_of(one).is_same(direction)]
    for one in corpora:
        for source, target in islice(read_byte_pairs(one), MAX_PAIRS // len(corpora)):
            with contextlib.suppress(UnicodeDecodeError):  # the training drops such a pair
                yield source.decode(), target.decode()
