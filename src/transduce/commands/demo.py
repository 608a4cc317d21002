"""`transduce demo`: trains on the embedded corpus, measures, translates and draws."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.options import DeviceOption, ThreadsOption


def demo(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long to train.")] = 5.0,
    out: Annotated[Path, typer.Option(help="The model directory.")] = Path("runs/demo"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Trains on the embedded corpus, measures, translates and draws; prints everything on standard output."""
    from transduce.demo import demo
    from transduce.trainer.train import TrainOptions

    def say(line: str) -> None:
        with contextlib.suppress(OSError):  # a closed pipe does not stop the training
            print(line, flush=True)

    demo(out, minutes, TrainOptions(device, threads), say)
