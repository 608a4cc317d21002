"""What trainings have found, in one file beside the tables: small enough to carry where the weights are not.

From it a table is printed again, or filled on, in another folder and on another machine.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transduce.durable import write_text

__all__ = ["lay_out", "take_in"]

RECORD = "trainings.json"
FOUND = "found-*.json"


def lay_out(out: Path, work: Path, say: Callable[[str], None]) -> None:
    """Writes what `out` remembers into the folder of trainings, where nothing of the same name is."""
    missing = {name: found for name, found in _remembered(out).items() if not (work / name).exists()}
    for name, found in missing.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(work / name, json.dumps(found, ensure_ascii=False) + "\n")
    if missing:
        say(f"{len(missing)} more found in {out / RECORD}; a training whose recipe is that of today is not repeated")


def take_in(out: Path, work: Path) -> None:
    """Has `out` remember what the folder of trainings has, and what it remembered before; a line each."""
    found = {str(path.relative_to(work)): json.loads(path.read_text("utf-8")) for path in work.rglob(FOUND)}
    lines = [
        f"{json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}"
        for name, each in sorted((_remembered(out) | found).items())
    ]
    if lines:
        write_text(out / RECORD, "{\n" + ",\n".join(lines) + "\n}\n")


def _remembered(out: Path) -> dict[str, Any]:
    """By the path in the folder of trainings."""
    path = out / RECORD
    if not path.exists():
        return {}
    try:
        remembered: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged ({error}): take it from a copy, or delete it") from None
    for name in remembered:
        if not Path(name).match(FOUND) or Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError(f"{path}: {name} is no training's place: take the file from a copy, or delete it")
    return remembered
