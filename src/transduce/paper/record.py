"""What was found of trainings: lines that are added and never changed, beside the trainings and beside the tables.

A folder of trainings has `found.jsonl`. All of them together are `trainings.jsonl` beside the tables, which is small
enough to carry where the weights are not: from it a table is printed again, or filled on, elsewhere. Two such files
are joined by having the lines of both.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from transduce.settings import check_plain
from transduce.storage.atomic import atomic_write_text
from transduce.storage.locks import wait_for_lock

__all__ = ["Record", "add_record", "lay_out", "records", "take_in", "trials"]

FOUND, TOGETHER = "found.jsonl", "trainings.jsonl"
FOLDER = re.compile(r"[\w-]+(/[\w-]+)?")

Kind = TypeVar("Kind")


class Record(NamedTuple):
    """What was found of a training, and the recipe or other settings that decide on it; both are plain JSON values."""

    trial: str
    recipe: Any
    found: dict[str, Any]

    def told(self, kind: type[Kind]) -> Kind | None:
        """What was found as what it was; None where another version wrote it, which said less or something else."""
        try:
            return kind(**self.found)
        except TypeError:
            return None


def records(folder: Path, trial: str) -> list[Record]:
    """All that is known of a trial in a folder of trainings, of whichever recipe."""
    known = (Record(**values) for values in _lines(folder / FOUND, Record._fields))
    return [record for record in known if record.trial == trial]


def trials(folder: Path) -> set[str]:
    """The trials of which something is known in a folder of trainings."""
    return {values["trial"] for values in _lines(folder / FOUND, Record._fields)}


def add_record(folder: Path, record: Record) -> None:
    """Writes it down, beside what other processes write."""
    _join(folder / FOUND, [record._asdict()], Record._fields)


def lay_out(out: Path, work: Path) -> None:
    """Lets the folders of trainings know what is known beside the tables."""
    known: dict[str, list[dict[str, Any]]] = {}
    for values in _lines(out / TOGETHER, ("folder", *Record._fields)):
        known.setdefault(values.pop("folder"), []).append(values)
    for folder, lines in known.items():
        if not FOLDER.fullmatch(folder):
            raise ValueError(f"{out / TOGETHER}: {folder!r} is no folder of trainings: take the file from a copy")
        _join(work / folder / FOUND, lines, Record._fields)


def take_in(out: Path, work: Path) -> None:
    """Writes beside the tables what the folders of trainings know, to what was known there before."""
    paths = sorted(path for pattern in ("*", "*/*") for path in work.glob(f"{pattern}/{FOUND}"))
    folders = ((path.parent.relative_to(work).as_posix(), path) for path in paths)
    known = [
        {"folder": folder, **values}
        for folder, path in folders
        if FOLDER.fullmatch(folder)  # not a copy that somebody put beside it
        for values in _lines(path, Record._fields)
    ]
    _join(out / TOGETHER, known, ("folder", *Record._fields))


def _join(path: Path, more: Iterable[dict[str, Any]], keys: tuple[str, ...]) -> None:
    """Adds the lines that are not there yet; they stand in order, so that it does not matter who came first."""
    lines = {_line(values) for values in more}
    if lines <= {_line(values) for values in _lines(path, keys)}:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with wait_for_lock(path.parent):
        atomic_write_text(path, "".join(sorted(lines | {_line(values) for values in _lines(path, keys)})))


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, sort_keys=True) + "\n"


def _lines(path: Path, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The lines of a file; a `ValueError` names one that is none."""
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            yield _values(line, keys, f"{path}, line {number}")


def _values(line: bytes, keys: tuple[str, ...], place: str) -> dict[str, Any]:
    remedy = "mend it, or delete the line"
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}, is damaged ({error}): {remedy}") from None
    check_plain(values, place=place)
    words = ("folder", "trial")
    if not isinstance(values, dict) or values.keys() != set(keys) or not isinstance(values["found"], dict):
        raise ValueError(f"{place}, has not the keys {', '.join(keys)}: {remedy}")
    if not all(isinstance(values[key], str) for key in words if key in keys):
        raise ValueError(f"{place}: {' and '.join(words)} are words: {remedy}")
    return values
