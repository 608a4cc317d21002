"""`transduce demo`: trains on the embedded corpus, measures, translates or parses, and draws."""

import contextlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import show_log_records
from transduce.commands.options import DeviceOption, ThreadsOption


class Task(StrEnum):
    """What a demo shows."""

    TRANSLATING = "translating"
    PARSING = "parsing"


MINUTES = {Task.TRANSLATING: 5.0, Task.PARSING: 3.0}
RUNS = {Task.TRANSLATING: Path("runs/demo"), Task.PARSING: Path("runs/demo-parsing")}


def demo(
    task: Annotated[Task, typer.Argument(help="Translate English into German, or parse English.")] = Task.TRANSLATING,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="How long to train; 5 if not given, 3 for parsing.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The model directory; runs/demo, or runs/demo-parsing, if not given.")
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Trains on the embedded corpus, measures, shows and draws; prints everything on standard output."""
    from transduce.demo import demo_parsing, demo_translation
    from transduce.run.train import TrainOptions

    def show(line: str) -> None:
        with contextlib.suppress(OSError):  # a closed pipe does not stop the training
            print(line, flush=True)

    demo = demo_translation if task is Task.TRANSLATING else demo_parsing
    show_log_records(show)
    demo(out or RUNS[task], minutes or MINUTES[task], TrainOptions(device, threads))
