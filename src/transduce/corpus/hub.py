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
    """A table; `ValueError` where the package is missing, naming the `wish`, `ConnectionError` where none is given."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise ValueError(f"{wish} needs the package `datasets`: `pip install datasets`") from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(name, config, split=split, revision=revision)
    except Exception as error:  # the package lets through whatever its parts raise
        asked = ", ".join(part for part in (name, config, split, revision) if part)
        raise ConnectionError(f"the package `datasets` does not give {asked}: {error}") from None


def rows(found: Any, languages: Sequence[str], name: str) -> Iterator[list[str]]:
    """The text of each row in these languages, empty where it has none.

    `ValueError` for a table without one of them, which says what it has, and for a row with something else than text.
    """
    number = 0
    for batch in found.iter(batch_size=BATCH):
        columns = _columns(batch, languages)
        if missing := [language for language in languages if language not in columns]:
            raise ValueError(f"{name} has no {', '.join(missing)}; it has {', '.join(columns)}")
        for row in zip(*(columns[language] for language in languages), strict=True):
            number += 1
            if odd := [language for language, side in zip(languages, row) if not isinstance(side, str | None)]:
                raise ValueError(f"{name}: row {number:,} has no text in {', '.join(odd)}: {row}")
            yield [side or "" for side in row]


def _columns(batch: dict[str, list[Any]], languages: Sequence[str]) -> dict[str, list[Any]]:
    """A column a language, also where a row has all its languages in one, and where none of these rows has any."""
    together = [row or {} for row in batch.get(COLUMN, [])]
    if not together or not all(isinstance(row, dict) for row in together) or set(languages) <= batch.keys():
        return batch
    known = {key for row in together for key in row} or languages
    return {language: [row.get(language) for row in together] for language in known}
