"""Choices that commands offer, and the refusal of options that would do nothing."""

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from transduce.search import Decoding


class PrecisionOption(StrEnum):
    """The precision of matrix products while translating."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


class Engine(StrEnum):
    """Who translates in bulk."""

    LOCAL = "local"
    RAY = "ray"


def refuse_options(options: Mapping[str, Any], why: str) -> None:
    """A `ValueError` for the first option that is given."""
    for name, value in options.items():
        if value is not None:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            raise ValueError(f"{name} {shown}: it {why}; leave it out")


MarginOption = Annotated[
    float | None,
    typer.Option(
        help="Drop hypotheses more than this many nats behind the best: faster, may change the result. "
        "inf switches it off."
    ),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out if it exists.")]


def decoding_settings(run: Path, changes: Mapping[str, Any]) -> "Decoding":
    """Returns the decoding settings of the model in `run`, with those of `changes` that are not None."""
    from transduce.model_directory import Model
    from transduce.search import Decoding
    from transduce.settings import merged, validated

    options = {key: value for key, value in changes.items() if value is not None}
    if options.get("margin") == math.inf:
        options["margin"] = None
    return validated(Decoding, merged(Model.read_config(run).decoding.as_dictionary(), options), place="options")
