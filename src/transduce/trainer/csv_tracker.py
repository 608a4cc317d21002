"""The metrics of a training as a CSV file: a row a record, a column a value."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from transduce.storage.atomic import atomic_write
from transduce.storage.named_errors import name_in_errors

__all__ = ["CsvTracker"]


class CsvTracker:
    """Appends rows to a file; a value of a new name adds a column, for which the file is written anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: list[str] = ["step"]
        self._last_row: list[str] = []  # of an earlier start, while no row was added

    def begin(self, run: str | None) -> str | None:
        """Reads the columns of the file of an earlier start, and removes a half row; a file has no run of its own."""
        if self._path.exists():
            rows = self._read()
            self._columns, self._last_row = rows[0], rows[-1]
            if not self._path.read_bytes().endswith(b"\n"):
                self._last_row = rows[-2] if len(rows) > 2 else []
                atomic_write(self._path, lambda path: _write(path, rows[:-1] or [self._columns]))
        return run

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Appends a row, unless it is the last one of an earlier start."""
        last, self._last_row = dict(zip(self._columns, self._last_row, strict=False)), []
        if last.get("step") == str(step) and all(last.get(name) for name in values):
            return
        if new := [name for name in values if name not in self._columns]:
            self._add_columns(new)
        row = {"step": step, **values}
        with name_in_errors(self._path), self._path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([row.get(name, "") for name in self._columns])

    def close(self) -> None:
        """Does nothing: the file is closed after each row."""

    def _add_columns(self, names: Sequence[str]) -> None:
        """Writes the file anew, with columns on the right that earlier rows leave empty."""
        rows = self._read()[1:] if self._path.exists() else []
        self._columns = [*self._columns, *names]
        padded = ([*row, *[""] * (len(self._columns) - len(row))] for row in rows)
        atomic_write(self._path, lambda path: _write(path, [self._columns, *padded]))

    def _read(self) -> list[list[str]]:
        """Returns the rows, the heading first; an empty row where the file is empty."""
        with self._path.open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file)) or [["step"]]


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
