"""Reads data sets from the Hugging Face Hub with the package `datasets`, which downloads and caches them."""

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from transduce.runtime.extras import install_command
from transduce.runtime.progress import is_terminal

BATCH = 1000  # rows read from a table at a time

COLUMN = "translation"
"""The name of the column in which some data sets store the texts of all languages."""


def load_table(name: str, config: str | None, split: str, *, revision: str | None = None, needed_by: str) -> Any:
    """Loads one split of a data set as a table.

    Raises ValueError if the package `datasets` is not installed; the message begins with `needed_by`. Raises
    ConnectionError if the package cannot load the data set.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise ValueError(f"{needed_by} needs the package `datasets`: {install_command('hub')}") from None
    if not is_terminal(sys.stderr):
        datasets.disable_progress_bars()
    try:
        with contextlib.redirect_stderr(sys.__stderr__):  # progress bars move the cursor
            return datasets.load_dataset(name, config, split=split, revision=revision)
    except Exception as error:  # the package raises the errors of all its dependencies
        parts = ", ".join(part for part in (name, config, split, revision) if part)
        raise ConnectionError(f"the package `datasets` cannot load {parts}: {error}") from None


def read_rows(table: Any, languages: Sequence[str], name: str) -> Iterator[list[str]]:
    """Yields the texts of each row in the given languages, with an empty string in place of a missing text.

    Raises ValueError if the table lacks one of the languages, or if a value is not text.
    """
    row_number = 0
    for batch in table.iter(batch_size=BATCH):
        columns = _columns(batch, languages)
        if missing := [language for language in languages if language not in columns]:
            raise ValueError(f"{name} has no {', '.join(missing)}; it has {', '.join(columns)}")
        for row in zip(*(columns[language] for language in languages), strict=True):
            row_number += 1
            if not_text := [
                language for language, side in zip(languages, row, strict=True) if not isinstance(side, str | None)
            ]:
                raise ValueError(f"{name}: row {row_number:,} has no text in {', '.join(not_text)}: {row}")
            yield [side or "" for side in row]


def _columns(batch: dict[str, list[Any]], languages: Sequence[str]) -> dict[str, list[Any]]:
    """Returns the columns of a batch by language.

    If the data set stores all languages in a common column, this column is split into one for each language.
    """
    common = [row or {} for row in batch.get(COLUMN, [])]
    if not common or not all(isinstance(row, dict) for row in common) or set(languages) <= batch.keys():
        return batch
    keys = {key for row in common for key in row} or languages  # rows without any translation have no keys
    return {language: [row.get(language) for row in common] for language in keys}
