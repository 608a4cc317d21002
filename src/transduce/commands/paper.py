"""`transduce paper`."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say


class Experiment(StrEnum):
    """What of the paper is reproduced."""

    TABLE1 = "table1"
    TABLE2 = "table2"
    TABLE3 = "table3"
    SCALING = "scaling"
    DISTANCE = "distance"
    ALL = "all"


REPEATS = 5


class At(StrEnum):
    """The size of corpus and models."""

    SMALL = "small"
    PAPER = "paper"
    PAPER_FRENCH = "paper-en-fr"


def paper(
    experiment: Annotated[Experiment, typer.Argument(help="Which table or argument.")],
    scale: Annotated[At, typer.Option(help="All shrunk, or the paper's sizes; en-fr: Table 2.")] = At.SMALL,
    row: Annotated[list[str], typer.Option(help="Train this row alone; again for another.")] = [],  # noqa: B006
    seeds: Annotated[int | None, typer.Option(min=1, help="Of Table 3: trainings a row; 1 if not given.")] = None,
    minutes_per_row: Annotated[float | None, typer.Option(min=0.01, help="Bounds each training.")] = None,
    work: Annotated[Path, typer.Option(help="Where trainings are kept, and gone on with.")] = Path("runs/paper"),
    out: Annotated[Path, typer.Option(help="Where tables are written, and trainings known from.")] = Path("results"),
    repeats: Annotated[int | None, typer.Option(min=1, help="Of Table 1: how often each time is taken.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or one of several: cuda:1.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
) -> None:
    """Reproduces a table of the paper, or an argument of it: what it states beside what is found."""
    from transduce.paper.experiments import EXPERIMENTS, ExperimentOptions
    from transduce.paper.page import write_page
    from transduce.paper.provenance import program_version
    from transduce.paper.record import collect_records, distribute_records
    from transduce.runtime.device import choose_device, keep_freed_memory, set_threads
    from transduce.trainer.train import TrainOptions

    _check(experiment, scale, row, seeds, minutes_per_row, repeats)
    set_threads(threads)
    keep_freed_memory()
    program_version()  # called now: a training of hours is by the code that it began with
    options = ExperimentOptions(
        scale.value,
        tuple(row),
        seeds or 1,
        minutes_per_row,
        work,
        repeats or REPEATS,
        TrainOptions(device, threads),
        say,
    )
    out.mkdir(parents=True, exist_ok=True)
    distribute_records(out, work)
    names = list(EXPERIMENTS) if experiment is Experiment.ALL else [experiment.value]
    for name in names:
        began = time.monotonic()
        try:
            result = EXPERIMENTS[name](options)
        finally:
            collect_records(out, work)  # also of rows that were finished before an error
        print(result.write(out, choose_device(device), time.monotonic() - began))
    if experiment is Experiment.ALL:
        say(f"all of it on one page: {write_page(out)}")


def _check(
    experiment: Experiment, scale: At, row: list[str], seeds: int | None, minutes: float | None, repeats: int | None
) -> None:
    """A `ValueError` for an option that means nothing to the experiment."""
    if row and experiment is Experiment.ALL:
        raise ValueError("--row: with it, name one table or argument instead of `all`")
    if seeds is not None and experiment not in (Experiment.TABLE3, Experiment.ALL):
        raise ValueError(f"--seeds {seeds}: only Table 3 is trained under several; leave it out")
    if scale is At.PAPER_FRENCH and experiment is not Experiment.TABLE2:
        raise ValueError("--scale paper-en-fr: only Table 2 has that pair; give --scale paper")
    if scale is not At.SMALL and experiment is Experiment.TABLE1:
        raise ValueError(f"--scale {scale.value}: Table 1 has sizes of its own; leave it out")
    if repeats is not None and experiment not in (Experiment.TABLE1, Experiment.ALL):
        raise ValueError(f"--repeats {repeats}: only Table 1 repeats its times; leave it out")
    if minutes is not None and experiment is Experiment.TABLE1:
        raise ValueError(f"--minutes-per-row {minutes:g}: Table 1 trains nothing; leave it out")
