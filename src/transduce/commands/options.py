"""Choices that commands offer, and the refusal of options that would do nothing."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


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
