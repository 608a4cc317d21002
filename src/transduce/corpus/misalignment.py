"""Where two files that should run side by side part: evidence for the message about unequal line counts.

From the first lost line on, line i of one file fits line i + shift of the other better than line i. For each
shift, what is gained by it is summed from line to line; Page's test (1954) raises the alarm when the sum has
climbed high enough above its lowest point, and that lowest point is where the files part.
"""

import re
import zlib
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Misalignment", "find_misalignment"]

FURTHEST = 16
"""Lines lost one by one that are still followed."""

CERTAINTY = 10.0
"""The log of the odds against a false alarm anywhere in the files."""

SPREAD = 0.35
"""Standard deviation of the log of the proportion of two translations' lengths, about that of European pairs."""

TRAITS = np.dtype([("length", "f4"), ("numbers", "u4"), ("ending", "u1")])
NUMBER = re.compile(rb"\d+")
ENDINGS = b".?!:;,"


MOST = 5_000_000  # lines: of longer files what is kept of them would no longer fit into a small machine


class Misalignment(NamedTuple):
    """From `line` (counted from 0) on, the source fits the target's lines `shift` further down."""

    line: int
    shift: int


def find_misalignment(source: Iterable[bytes], target: Iterable[bytes]) -> Misalignment | None:
    """The first line from which the two sides run apart, judged by lengths, numbers and punctuation.

    None where nothing tells, or of more than `MOST` lines.
    """
    left, right = (_traits(islice(side, MOST + 1)) for side in (source, target))
    if max(len(left), len(right)) > MOST:
        return None
    both = min(len(left), len(right))
    middle = float(np.median(_proportion(left[:both], right[:both]))) if both else 0.0
    # At the end the shift is the difference of the lengths; before, some of these lines may not be lost yet.
    whole = len(right) - len(left)
    lost = {*range(1, min(FURTHEST, abs(whole))), abs(whole)}
    tests = [_alarm(left, right, lines if whole > 0 else -lines, middle) for lines in lost]
    alarms = [alarm for alarm in tests if alarm]
    return min(alarms)[1] if alarms else None


def _alarm(left: NDArray[Any], right: NDArray[Any], shift: int, middle: float) -> tuple[int, Misalignment] | None:
    """When Page's test is sure of `shift`, and where that shift began."""
    start, stop = max(0, -shift), min(len(left), len(right), len(right) - shift)
    if start >= stop:
        return None
    moved = _fit(left[start:stop], right[start + shift : stop + shift], middle)
    total = np.cumsum(np.append(0.0, moved - _fit(left[start:stop], right[start:stop], middle)))
    sure = total - np.minimum.accumulate(total) > CERTAINTY + np.log(FURTHEST * len(total))
    if sure.any():
        when = int(sure.argmax())
    elif shift == len(right) - len(left) and total[-1] - total.min() > CERTAINTY / 2:
        when = stop - start  # all lines below have this shift for certain: little evidence will do
    else:
        return None
    return start + when, Misalignment(start + int(total[: when + 1].argmin()), shift)


def _fit(left: NDArray[Any], right: NDArray[Any], middle: float) -> NDArray[np.float64]:
    """How much each pair of lines looks like a translation: a log-likelihood, up to a constant."""
    length = np.maximum(-0.5 * ((_proportion(left, right) - middle) / SPREAD) ** 2, -8.0)
    same, some = left["numbers"] == right["numbers"], (left["numbers"] > 0) | (right["numbers"] > 0)
    numbers = np.where(some, np.where(same, 3.0, -2.0), 0.0)
    return length + numbers + np.where(left["ending"] == right["ending"], 0.5, -1.0)


def _proportion(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    proportion: NDArray[np.float64] = np.log((left["length"] + 1.0) / (right["length"] + 1.0))
    return proportion


def _traits(lines: Iterable[bytes]) -> NDArray[Any]:
    """What is kept of each line: its length, its numbers as one checksum, the mark that ends it."""
    return np.fromiter(((len(line), _numbers(line), ENDINGS.find(line[-1:]) + 1) for line in lines), TRAITS)


def _numbers(line: bytes) -> int:
    found = NUMBER.findall(line)
    return zlib.crc32(b" ".join(found)) if found else 0
