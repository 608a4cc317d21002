"""Tables of Hugging Face's hub, through the package `datasets`, which downloads and keeps them in its own way."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["rows", "table"]

BATCH = 1000  # rows that are taken from a table at a time

COLUMN = "translation"
"""The column in which a row has all its languages, where a table has such a one."""


def table(name: str, config: str | None, split: str, *, revision: str | None = None, wish: str) -> Any:
    """A table; `ValueError` where the package is missing, naming the `wish` it is for, or the hub does not give it."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise ValueError(f"{wish} needs the package `datasets`: `pip install datasets`") from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(name, config, split=split, revision=revision)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"the hub does not give {name}, {split}: {error}") from None


def rows(found: Any, languages: Sequence[str], name: str) -> Iterator[list[bytes]]:
    """The text of each row in these languages; a `ValueError` says which languages there are where one is not."""
    for batch in found.iter(batch_size=BATCH):
        held = {language: None for row in batch[COLUMN][:1] for language in row} if COLUMN in batch else batch
        if missing := [language for language in languages if language not in held]:
            raise ValueError(f"{name} has no {', '.join(missing)}; it has {', '.join(held)}")
        if COLUMN in batch:
            yield from ([row[language].encode() for language in languages] for row in batch[COLUMN])
        else:
            sides = [batch[language] for language in languages]
            yield from ([side.encode() for side in row] for row in zip(*sides, strict=True))
