"""Tables from Hugging Face's hub, read with the package `datasets`, which downloads and caches them."""

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from transduce.runtime.extras import install_command
from transduce.runtime.progress import is_terminal

BATCH = 1000  # rows read from a table at a time

COLUMN = "translation"
"""The column that holds the texts of all languages, in tables that have it."""


def load_table(name: str, config: str | None, split: str, *, revision: str | None = None, needed_by: str) -> Any:
    """Loads a table.

    Raises ValueError, which begins with `needed_by`, if the package is missing, and ConnectionError if the package
    cannot load the table.
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
    """Yields the text of each row in these languages; a missing text is empty.

    Raises ValueError for a table without one of the languages, and for a row whose value is not text.
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
    """Returns a column for each language; splits the common column of all languages if the table has one."""
    common = [row or {} for row in batch.get(COLUMN, [])]
    if not common or not all(isinstance(row, dict) for row in common) or set(languages) <= batch.keys():
        return batch
    keys = {key for row in common for key in row} or languages  # rows without any translation have no keys
    return {language: [row.get(language) for row in common] for language in keys}
