"""Every experiment by its name: options in, text, values and plot out."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from transduce.paper import lengths, recall, scaling, sequences, table1, table2, table3, table4
from transduce.paper.printed import distance as printed_distance
from transduce.paper.printed import scaling as printed_scaling
from transduce.paper.printed import table1 as printed_table1
from transduce.paper.printed import table2 as printed_table2
from transduce.paper.printed import table3 as printed_table3
from transduce.paper.printed import table4 as printed_table4
from transduce.paper.provenance import provenance
from transduce.paper.published_systems import SYSTEMS
from transduce.paper.scales import ScaleName, scale_named
from transduce.paper.treebanks import treebank_of_scale
from transduce.paper.trials import Say
from transduce.runtime.device import choose_device
from transduce.storage.atomic import atomic_write, atomic_write_text
from transduce.storage.locks import wait_for_lock
from transduce.trainer.train import TrainOptions


class ExperimentOptions(NamedTuple):
    """The options of `transduce paper`."""

    scale: ScaleName
    rows: tuple[str, ...]  # to train; empty for all
    seeds: int
    minutes: float | None  # of each training
    work: Path
    repeats: int
    training: TrainOptions
    say: Say

    def select_rows(self, names: Sequence[str]) -> list[str]:
        """Returns the rows to train; raises ValueError for a row that is not in `names`."""
        for row in self.rows:
            if row not in names:
                raise ValueError(f"--row {row}: choose {', '.join(names)}")
        return list(self.rows or names)

    def folder(self, experiment: str) -> Path:
        """Returns the folder of the run directories of an experiment."""
        return self.work / f"{experiment}-{self.scale}"


class ExperimentResult(NamedTuple):
    """The text of an experiment, its values for JSON, and a function that draws its plot."""

    name: str
    title: str
    text: str
    values: Any
    draw: Callable[[Path], None] | None = None

    def write(self, out: Path, device: torch.device, seconds: float) -> str:
        """Writes NAME.md, NAME.json and NAME.svg into `out`, and returns the text of NAME.md."""
        picture = f"![{self.title}]({self.name}.svg)\n\n" if self.draw else ""
        page = f"# {self.title}\n\n{picture}{self.text}\n\n{provenance(device, seconds)}\n"
        with wait_for_lock(out):  # several processes may train rows of one table
            if self.draw is not None:
                atomic_write(out / f"{self.name}.svg", self.draw)
            atomic_write_text(out / f"{self.name}.md", page)
            atomic_write_text(out / f"{self.name}.json", json.dumps(self.values, indent=1, ensure_ascii=False) + "\n")
        return page


def _table1(options: ExperimentOptions) -> ExperimentResult:
    if options.rows:
        raise ValueError("--row: Table 1 trains no rows; leave it out")
    device = choose_device(options.training.device)
    rows = table1.measure_layers(device, options.repeats, options.say)
    claims = table1.measure_claims(device, options.repeats)
    return ExperimentResult(
        "table1",
        "Table 1: what each kind of layer costs",
        printed_table1.as_text(rows, claims),
        table1.as_dictionary(rows, claims),
        lambda path: printed_table1.draw(rows, path),
    )


def _table2(options: ExperimentOptions) -> ExperimentResult:
    scale = scale_named(options.scale)
    names = options.select_rows([system.name for system in SYSTEMS])
    minutes = options.minutes or scale.minutes
    comparison = table2.run_table2(scale, names, minutes, options.folder("table2"), options.training, options.say)
    title = f"Table 2: the systems beside each other ({scale.corpus})"
    return ExperimentResult("table2", title, printed_table2.as_text(comparison), table2.as_dictionary(comparison))


def _table3(options: ExperimentOptions) -> ExperimentResult:
    scale = scale_named(options.scale)
    names, folder = options.select_rows(table3.ROWS), options.folder("table3")
    rows = table3.run_table3(scale, names, options.seeds, options.minutes, folder, options.training, options.say)
    orderings = table3.compare_with_base(rows)
    smaller = (
        f", widths divided by {scale.width_divisor}, layers by {scale.layers_divisor}, {scale.steps:,} steps"
        if scale.width_divisor > 1
        else ""
    )
    title = f"Table 3: variations of the base model ({scale.corpus}{smaller})"
    return ExperimentResult(
        "table3", title, printed_table3.as_text(rows, orderings), table3.as_dictionary(rows, orderings)
    )


def _table4(options: ExperimentOptions) -> ExperimentResult:
    treebank = treebank_of_scale(options.scale)
    names, folder = options.select_rows(table4.NAMES), options.folder("table4")
    results = table4.run_table4(treebank, names, options.seeds, options.minutes, folder, options.training, options.say)
    return ExperimentResult(
        "table4",
        f"Table 4: English constituency parsing ({treebank.corpus})",
        printed_table4.as_text(results, treebank),
        table4.as_dictionary(results),
        lambda path: printed_table4.draw(results, path),
    )


def _scaling(options: ExperimentOptions) -> ExperimentResult:
    scale = scale_named(options.scale)
    names, folder = options.select_rows(scaling.NAMES), options.folder("scaling")
    rows = scaling.run_scaling(scale, names, options.minutes, folder, options.training, options.say)
    return ExperimentResult(
        "scaling",
        f"Section 3.2.1: the size of d_k and how a query fits a key ({scale.corpus})",
        printed_scaling.as_text(rows),
        scaling.as_dictionary(rows),
        lambda path: printed_scaling.draw(rows, path),
    )


def _distance(options: ExperimentOptions) -> ExperimentResult:
    scale, folder = scale_named(options.scale), options.folder("distance")
    systems, positions = [system.name for system in sequences.SYSTEMS], list(lengths.POSITIONS)
    names = options.select_rows(["mixers", *systems, *positions])
    device = choose_device(options.training.device)
    # The second pass trains nothing and reads the results that other processes have written meanwhile.
    for trained in (names, []):
        mixers = recall.run_recall(folder, "mixers" in trained, device, options.say)
        accuracies = sequences.run_sequences(
            trained, options.minutes, folder / "sequences", options.training, options.say
        )
        scores = lengths.run_lengths(scale, trained, options.minutes, folder / "lengths", options.training, options.say)
    return ExperimentResult(
        "distance",
        f"Sections 4 and 3.5: what distance costs ({scale.corpus}, and artificial sequences)",
        printed_distance.as_text(mixers, accuracies, scores),
        {
            "mixers": [result._asdict() for result in mixers],
            "systems": [{**accuracy._asdict(), "training": accuracy.training.program} for accuracy in accuracies],
            "positions": [{**score._asdict(), "training": score.training.program} for score in scores],
        },
        lambda path: printed_distance.draw(mixers, accuracies, scores, path),
    )


EXPERIMENTS: dict[str, Callable[[ExperimentOptions], ExperimentResult]] = {
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "scaling": _scaling,
    "distance": _distance,
}
