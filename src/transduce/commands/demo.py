"""`transduce demo`."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer


def demo(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long to train.")] = 5.0,
    out: Annotated[Path, typer.Option(help="The model directory.")] = Path("runs/demo"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or one of several: cuda:1.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
) -> None:
    """Trains on the embedded corpus, measures, translates and draws: everything once."""
    from transduce.demo import demo
    from transduce.trainer.train import TrainOptions

    def say(line: str) -> None:
        with contextlib.suppress(OSError):  # where the reader has left, the training goes on
            print(line, flush=True)

    demo(out, minutes, TrainOptions(device, threads), say)
