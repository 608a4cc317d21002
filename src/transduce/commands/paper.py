"""`transduce paper`: reproduces the paper's tables, and tests its arguments in experiments."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.options import DeviceOption, ThreadsOption


class Experiment(StrEnum):
    """The tables and arguments of the paper for which there are experiments."""

    TABLE1 = "table1"
    TABLE2 = "table2"
    TABLE3 = "table3"
    TABLE4 = "table4"
    SCALING = "scaling"
    DISTANCE = "distance"
    HEADS = "heads"
    RESOLUTION = "resolution"
    CLAIMS = "claims"
    ARCHITECTURE = "architecture"
    ALL = "all"


WITHOUT_SEEDS = (Experiment.TABLE1, Experiment.SCALING, Experiment.DISTANCE)

REPEATS = 5  # number of times that each duration in Table 1 is measured


class Size(StrEnum):
    """The scale of an experiment, which determines its corpus and the size of its models."""

    SMALL = "small"
    PAPER = "paper"
    PAPER_FRENCH = "paper-en-fr"


def paper(
    experiment: Annotated[Experiment, typer.Argument(help="Table or argument of the paper to reproduce.")],
    run: Annotated[
        bool, typer.Option("--run", help="Train and measure first, except for rows that already have results.")
    ] = False,
    scale: Annotated[
        Size, typer.Option(help="Model sizes and corpus: small, or those of the paper; paper-en-fr is for Table 2.")
    ] = Size.SMALL,
    row: Annotated[list[str], typer.Option(help="Train only this row; may be repeated.")] = [],  # noqa: B006
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of runs per row (default: 1 for Tables 2 to 4, 3 for heads, 5 for resolution)."
        ),
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Time limit of each run in minutes.")] = None,
    work: Annotated[
        Path | None, typer.Option(help="Work folder for the training runs, which can be resumed (default: runs/paper).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Output folder for results and tables.")] = Path("results"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Prints a table or an argument of the paper from recorded results; with --run, trains and measures first."""
    from transduce.paper import experiments
    from transduce.paper.all_results import write_page
    from transduce.paper.experiment_scales import ExperimentOptions
    from transduce.paper.provenance import program_version
    from transduce.run.train import TrainOptions
    from transduce.runtime.device import set_up_device

    _check(experiment, run, scale, row, seeds, minutes)
    of_runs = {
        "--scale": scale is not Size.SMALL,
        "--row": row,
        "--seeds": seeds,
        "--minutes": minutes,
        "--work": work,
        "--device": device != "auto",
        "--threads": threads,
    }
    if not run and (given := [option for option, value in of_runs.items() if value]):
        raise ValueError(f"{', '.join(given)}: without --run nothing is trained or measured; add --run")
    if experiment is Experiment.CLAIMS:
        from transduce.paper.claims import print_claims

        print(print_claims(out))
        return
    if experiment is Experiment.ARCHITECTURE:
        from transduce.paper.architecture import draw_figures

        print(*draw_figures(out), sep="\n")
        return
    names = list(experiments.EXPERIMENTS) if experiment is Experiment.ALL else [experiment.value]
    if experiment is Experiment.ALL and not run:
        names = [name for name in names if experiments.has_results(name, out)] or names
    if run:
        set_up_device(device, threads)
        program_version()  # records the commit now, because the code may change during hours of training
        training, folder = TrainOptions(device, threads), work or Path("runs/paper")
        options = ExperimentOptions(scale.value, tuple(row), 1, minutes, folder, REPEATS, training)
    for name in names:
        if run:
            of_experiment = options._replace(seeds=seeds or experiments.EXPERIMENTS[name].seeds)
            experiments.run_experiment(name, of_experiment, out)
        print(experiments.print_experiment(name, out))
    if experiment is Experiment.ALL:
        say(f"all tables on one page: {write_page(out)}")


def _check(
    experiment: Experiment,
    run: bool,
    scale: Size,
    row: list[str],
    seeds: int | None,
    minutes: float | None,
) -> None:
    """Raises ValueError if an option was given that the experiment does not use."""
    if run and experiment is Experiment.CLAIMS:
        raise ValueError("--run: claims are judged by the results of other experiments; the page has their commands")
    if run and experiment is Experiment.ARCHITECTURE:
        raise ValueError("--run: architecture draws Figures 1 and 2 without training; leave it out")
    if row and experiment is Experiment.ALL:
        raise ValueError("--row: with it, name one table or argument instead of `all`")
    if experiment is Experiment.HEADS and (row or scale is not Size.SMALL):
        raise ValueError("--row, --scale: heads trains the demo's model alone; leave them out")
    if seeds is not None and experiment in WITHOUT_SEEDS:
        raise ValueError(f"--seeds {seeds}: {experiment.value} has one seed; leave it out")
    if scale is Size.PAPER_FRENCH and experiment is not Experiment.TABLE2:
        raise ValueError("--scale paper-en-fr: only Table 2 has that pair; use --scale paper")
    if scale is not Size.SMALL and experiment is Experiment.TABLE1:
        raise ValueError(f"--scale {scale.value}: Table 1 has sizes of its own; leave it out")
    if scale is not Size.SMALL and experiment is Experiment.RESOLUTION:
        raise ValueError(f"--scale {scale.value}: resolution has one size; leave it out")
    if minutes is not None and experiment is Experiment.RESOLUTION:
        raise ValueError(f"--minutes {minutes:g}: each run of resolution has the same steps; leave it out")
    if minutes is not None and experiment is Experiment.TABLE1:
        raise ValueError(f"--minutes {minutes:g}: Table 1 trains nothing; leave it out")
