"""Options that several commands share, and the checks of options."""

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from transduce.search import Decoding


class PrecisionName(StrEnum):
    """The precision of matrix products while translating."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


class Engine(StrEnum):
    """What runs a bulk translation: this process, or the actors of Ray."""

    LOCAL = "local"
    RAY = "ray"


DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda, or a certain GPU, such as cuda:1.")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Threads on the CPU; one a core if not given.")]
PrecisionOption = Annotated[PrecisionName, typer.Option(help="Of products: int8 is fast on a CPU, bfloat16 on a GPU.")]
MarginOption = Annotated[
    float | None,
    typer.Option(
        help="Drop hypotheses more than this many nats behind the best: faster, may change the result. "
        "inf switches it off."
    ),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out if it exists.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SetOption = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")]


def refuse_options(options: Mapping[str, Any], reason: str) -> None:
    """Raises ValueError with `reason` for the first option whose value is not None."""
    for name, value in options.items():
        if value is not None:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            raise ValueError(f"{name} {shown}: it {reason}; leave it out")


def decoding_settings(run: Path, changes: Mapping[str, Any]) -> "Decoding":
    """Returns the decoding settings of the model in `run`, with those of `changes` that are not None."""
    from transduce.model_directory import Model
    from transduce.search import Decoding
    from transduce.settings import merged, validated

    options = {key: value for key, value in changes.items() if value is not None}
    if options.get("margin") == math.inf:
        options["margin"] = None
    return validated(Decoding, merged(Model.read_config(run).decoding.as_dictionary(), options), place="options")
