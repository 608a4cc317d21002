"""The precisions in which models translate."""

from typing import Literal, get_args

__all__ = ["TranslationPrecision", "check_precision"]

TranslationPrecision = Literal["float32", "bfloat16", "int8"]


def check_precision(precision: str) -> None:
    """Raises ValueError for an unknown precision."""
    if precision not in get_args(TranslationPrecision):
        raise ValueError(f"precision {precision!r} is unknown: choose {', '.join(get_args(TranslationPrecision))}")
