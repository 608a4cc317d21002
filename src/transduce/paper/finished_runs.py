"""Records of finished runs, which are stored as lines that are added to a file and never changed.

Each folder of runs contains such a file, `found.jsonl`. Next to the tables, `trainings.jsonl` collects the records of
all folders, without the weights, so that a table can be printed or continued on another machine. Two of these files can
be merged by taking the union of their lines.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import AfterValidator

from transduce.settings import check_plain
from transduce.storage.atomic import atomic_write_text
from transduce.storage.locks import wait_for_lock

RECORDS, COLLECTED = "found.jsonl", "trainings.jsonl"
KEYS = ("trial", "recipe", "found")  # keys of a line; `found` is the result
FOLDER = re.compile(r"[\w-]+(/[\w-]+)?")

Kind = TypeVar("Kind")


class Record(NamedTuple):
    """The result of a run, and the recipe or other settings on which it depends.

    Both are plain JSON values.
    """

    trial: str
    recipe: Any
    result: dict[str, Any]

    def parse(self, kind: type[Kind]) -> Kind | None:
        """Returns the result as an instance of `kind`, or None if it has other fields."""
        try:
            return kind(**self.result)
        except TypeError:
            return None


def one_of(names: Iterable[str]) -> AfterValidator:
    """Returns a validator for a field of stored results, which must be one of `names`, the rows that the code has."""
    allowed = list(names)

    def check(name: str) -> str:
        if name not in allowed:
            raise ValueError(f"{name!r} is not one of {', '.join(allowed)}")
        return name

    return AfterValidator(check)


def read_records(folder: Path, trial: str) -> list[Record]:
    """Returns the records of a trial in a folder of runs, whatever their recipe."""
    lines = _read_lines(folder / RECORDS, KEYS)
    return [Record(*(values[key] for key in KEYS)) for values in lines if values["trial"] == trial]


def recorded_seeds(folder: Path, row: str) -> list[int]:
    """Returns the seeds with which a row of a table has been trained, in ascending order.

    The trials of a row are named ROW-SEED.
    """
    trials = {values["trial"].rpartition("-") for values in _read_lines(folder / RECORDS, KEYS)}
    return sorted(int(seed) for name, _, seed in trials if name == row and seed.isdecimal())


def as_json(value: object) -> object:
    """Converts records and their values to JSON values; a named tuple becomes a dictionary."""
    match value:
        case tuple() if hasattr(value, "_asdict"):
            return as_json(value._asdict())
        case dict():
            return {str(key): as_json(each) for key, each in value.items()}
        case list() | tuple():
            return [as_json(each) for each in value]
    return value


def add_record(folder: Path, record: Record) -> None:
    """Adds a record to a folder of runs, which is safe even if several processes do so at once."""
    _add_lines(folder / RECORDS, [dict(zip(KEYS, record, strict=True))], KEYS)


def distribute_records(out: Path, work: Path) -> None:
    """Adds the records in `out`, next to the tables, to the folders of runs in `work`.

    Raises ValueError if a record does not name a valid folder.
    """
    folders: dict[str, list[dict[str, Any]]] = {}
    for values in _read_lines(out / COLLECTED, ("folder", *KEYS)):
        folders.setdefault(values.pop("folder"), []).append(values)
    for folder, lines in folders.items():
        if not FOLDER.fullmatch(folder):
            raise ValueError(f"{out / COLLECTED}: {folder!r} is not a folder of trainings: take the file from a copy")
        _add_lines(work / folder / RECORDS, lines, KEYS)


def collect_records(out: Path, work: Path) -> None:
    """Adds the records in the folders of runs in `work` to the file of records in `out`, next to the tables."""
    paths = sorted(path for pattern in ("*", "*/*") for path in work.glob(f"{pattern}/{RECORDS}"))
    folders = ((path.parent.relative_to(work).as_posix(), path) for path in paths)
    lines = [
        {"folder": folder, **values}
        for folder, path in folders
        if FOLDER.fullmatch(folder)  # not a backup, for example `table3-small.bak`
        for values in _read_lines(path, KEYS)
    ]
    _add_lines(out / COLLECTED, lines, ("folder", *KEYS))


def _add_lines(path: Path, additions: Iterable[dict[str, Any]], keys: tuple[str, ...]) -> None:
    """Adds the lines that a file does not contain yet.

    The lines are sorted, so that the file does not depend on the order in which processes write to it.
    """
    lines = {_line(values) for values in additions}
    if lines <= {_line(values) for values in _read_lines(path, keys)}:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with wait_for_lock(path.parent):
        atomic_write_text(path, "".join(sorted(lines | {_line(values) for values in _read_lines(path, keys)})))


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, sort_keys=True) + "\n"


def _read_lines(path: Path, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yields the values of each line of a file; raises ValueError with the line number if a line is damaged."""
    if not path.exists():
        return
    for line_number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            source = f"{path}, line {line_number}"
            remedy = "correct it, or delete the line"
            try:
                values = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{source} is damaged ({error}): {remedy}") from None
            check_plain(values, place=source)
            if not isinstance(values, dict) or values.keys() != set(keys) or not isinstance(values["found"], dict):
                raise ValueError(f"{source} does not have the keys {', '.join(keys)}: {remedy}")
            if not all(isinstance(values[key], str) for key in ("folder", "trial") if key in keys):
                raise ValueError(f"{source}: folder and trial must be strings: {remedy}")
            yield values
