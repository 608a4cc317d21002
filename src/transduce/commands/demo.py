"""`transduce demo`: trains a model on the embedded corpus, scores it, prints examples and draws a picture."""

import contextlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import show_log_records
from transduce.commands.options import DeviceOption, ThreadsOption


class Task(StrEnum):
    """The task for which the demo trains a model."""

    TRANSLATING = "translating"
    PARSING = "parsing"


MINUTES = {Task.TRANSLATING: 5.0, Task.PARSING: 3.0}
RUNS = {Task.TRANSLATING: Path("runs/demo"), Task.PARSING: Path("runs/demo-parsing")}


def demo(
    task: Annotated[
        Task, typer.Argument(help="Train a model that translates English into German, or one that parses English.")
    ] = Task.TRANSLATING,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Training time in minutes (default: 5, or 3 for parsing).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Model directory to write (default: runs/demo or runs/demo-parsing).")
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Trains a model on the embedded corpus, scores it, prints examples and draws a picture.

    All messages are printed on standard output.
    """
    from transduce.demo import demo_parsing, demo_translation
    from transduce.run.train import TrainOptions

    def show(line: str) -> None:
        with contextlib.suppress(OSError):  # a closed pipe does not stop the training
            print(line, flush=True)

    demo = demo_translation if task is Task.TRANSLATING else demo_parsing
    show_log_records(show)
    demo(out or RUNS[task], minutes or MINUTES[task], TrainOptions(device, threads))
