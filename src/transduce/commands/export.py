"""`transduce export`: exports a model to the format of another engine."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say


class ExportTarget(StrEnum):
    """The engines to which models can be exported."""

    CTRANSLATE2 = "ctranslate2"
    HUGGING_FACE = "hugging-face"
    MARIAN = "marian"
    ONNX = "onnx"
    BROWSER = "browser"


class ExportPrecision(StrEnum):
    """The precision of the exported weights."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"


def export(
    run: Annotated[Path, typer.Argument(help="Model directory.")],
    to: Annotated[ExportTarget, typer.Option("--to", help="Engine or format to export to.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    precision: Annotated[
        ExportPrecision | None,
        typer.Option(help="Precision of the weights (default: float32, or int8 for the browser)."),
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=0, help="Number of validation sentences on which both engines are compared.")
    ] = 100,
    runtime: Annotated[
        Path | None,
        typer.Option(
            help="Local folder with the npm package onnxruntime-web, for --to browser if npm cannot download it."
        ),
    ] = None,
) -> None:
    """Exports a model for another engine, and writes a comparison of both engines to `parity.json`."""
    from transduce.exchange.browser_format import add_runtime
    from transduce.exchange.export_model import FORMATS, PARITY, export
    from transduce.runtime.signals import raise_on_signals

    if runtime is not None:
        if to is not ExportTarget.BROWSER:
            raise ValueError(f"--runtime is for --to browser: leave it out with --to {to.value}")
        add_runtime(runtime)
    default, *_ = FORMATS[to.value].precisions
    with raise_on_signals():
        parity = export(run, to.value, out, precision.value if precision else default, sentences)
    say(
        f"{parity.equal_texts} of {parity.sentences} greedy translations are equal; the log-probabilities of "
        f"{parity.tokens:,} tokens differ by {parity.greatest:.1e} at most and {parity.mean:.1e} in the mean; "
        f"{out / PARITY} has more"
    )
    print(out)
