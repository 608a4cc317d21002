"""Choices that commands offer."""

from enum import StrEnum


class Products(StrEnum):
    """The precision of matrix products while translating."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


class Engine(StrEnum):
    """Who translates in bulk."""

    LOCAL = "local"
    RAY = "ray"
