"""Every experiment by its name: what the command line asks for, and what it is given."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from transduce.paper import lengths, recall, scaling, sequences, table1, table2, table3
from transduce.paper.printed import distance as printed_distance
from transduce.paper.printed import scaling as printed_scaling
from transduce.paper.printed import table1 as printed1
from transduce.paper.printed import table2 as printed2
from transduce.paper.printed import table3 as printed3
from transduce.paper.provenance import provenance
from transduce.paper.scales import ScaleName, scale
from transduce.paper.systems import SYSTEMS
from transduce.paper.trials import Say
from transduce.runtime.device import choose_device
from transduce.storage.atomic import atomic_write, atomic_write_text
from transduce.storage.locks import wait_for_lock
from transduce.trainer.train import TrainOptions

__all__ = ["EXPERIMENTS", "Asked", "Result"]


class Asked(NamedTuple):
    """What the command line asks for."""

    scale: ScaleName
    rows: tuple[str, ...]  # to be trained; none: all
    seeds: int
    minutes: float | None  # of each training
    work: Path
    repeats: int
    options: TrainOptions
    say: Say

    def chosen(self, known: Sequence[str]) -> list[str]:
        """The rows to train; `ValueError` for one that is not known."""
        for row in self.rows:
            if row not in known:
                raise ValueError(f"--row {row}: choose {', '.join(known)}")
        return list(self.rows or known)

    def folder(self, experiment: str) -> Path:
        """Where the trainings of an experiment are kept."""
        return self.work / f"{experiment}-{self.scale}"


class Result(NamedTuple):
    """An experiment's tables, its records, and its plot."""

    name: str
    title: str
    text: str
    values: Any
    draw: Callable[[Path], None] | None = None

    def write(self, out: Path, device: torch.device, seconds: float) -> str:
        """Writes NAME.md, NAME.json and NAME.svg; gives the text."""
        picture = f"![{self.title}]({self.name}.svg)\n\n" if self.draw else ""
        whole = f"# {self.title}\n\n{picture}{self.text}\n\n{provenance(device, seconds)}\n"
        with wait_for_lock(out):  # of several processes that share out its rows
            if self.draw is not None:
                atomic_write(out / f"{self.name}.svg", self.draw)
            atomic_write_text(out / f"{self.name}.md", whole)
            atomic_write_text(out / f"{self.name}.json", json.dumps(self.values, indent=1, ensure_ascii=False) + "\n")
        return whole


def _table1(asked: Asked) -> Result:
    if asked.rows:
        raise ValueError("--row: Table 1 is measured at once, and has no rows to train")
    device = choose_device(asked.options.device)
    rows = table1.table1(device, asked.repeats, asked.say)
    found = table1.claims(device, asked.repeats)
    return Result(
        "table1",
        "Table 1: what each kind of layer costs",
        printed1.as_text(rows, found),
        table1.as_dictionary(rows, found),
        lambda path: printed1.draw(rows, path),
    )


def _table2(asked: Asked) -> Result:
    at = scale(asked.scale)
    names = asked.chosen([system.name for system in SYSTEMS])
    minutes = asked.minutes or at.minutes
    found = table2.table2(at, names, minutes, asked.folder("table2"), asked.options, asked.say)
    title = f"Table 2: the systems beside each other ({at.corpus})"
    return Result("table2", title, printed2.as_text(found), table2.as_dictionary(found))


def _table3(asked: Asked) -> Result:
    at = scale(asked.scale)
    rows = table3.table3(
        at, asked.chosen(table3.ROWS), asked.seeds, asked.minutes, asked.folder("table3"), asked.options, asked.say
    )
    found = table3.orderings(rows)
    shrunk = "" if at.by == 1 else f", widths divided by {at.by}, layers by {at.layers_by}, {at.steps:,} steps"
    title = f"Table 3: variations of the base model ({at.corpus}{shrunk})"
    return Result("table3", title, printed3.as_text(rows, found), table3.as_dictionary(rows, found))


def _scaling(asked: Asked) -> Result:
    at = scale(asked.scale)
    names = asked.chosen(scaling.NAMES)
    rows = scaling.scaling(at, names, asked.minutes, asked.folder("scaling"), asked.options, asked.say)
    return Result(
        "scaling",
        f"Section 3.2.1: the size of d_k and how a query fits a key ({at.corpus})",
        printed_scaling.as_text(rows),
        scaling.as_dictionary(rows),
        lambda path: printed_scaling.draw(rows, path),
    )


def _distance(asked: Asked) -> Result:
    at, folder = scale(asked.scale), asked.folder("distance")
    families, positions = [family.name for family in sequences.FAMILIES], list(lengths.POSITIONS)
    names = asked.chosen(["mixers", *families, *positions])
    device = choose_device(asked.options.device)
    for chosen in (names, []):  # and once more, without training, for what other processes have found meanwhile
        recalled = recall.recall(folder, "mixers" in chosen, device, asked.say)
        kept = sequences.sequences(chosen, asked.minutes, folder / "sequences", asked.options, asked.say)
        scored = lengths.lengths(at, chosen, asked.minutes, folder / "lengths", asked.options, asked.say)
    return Result(
        "distance",
        f"Sections 4 and 3.5: what distance costs ({at.corpus}, and made sequences)",
        printed_distance.as_text(recalled, kept, scored),
        {
            "recalled": [each._asdict() for each in recalled],
            "kept": [{**each._asdict(), "by": each.by.program} for each in kept],
            "scored": [{**each._asdict(), "by": each.by.program} for each in scored],
        },
        lambda path: printed_distance.draw(recalled, kept, scored, path),
    )


EXPERIMENTS: dict[str, Callable[[Asked], Result]] = {
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "scaling": _scaling,
    "distance": _distance,
}
