"""Finds the line at which two parallel files become misaligned, whether or not their line counts differ.

From the first lost line on, line i of one file fits line i + shift of the other better than line i. For each shift,
the gain in log-likelihood is summed over the lines. Page's test (1954) raises the alarm when the sum exceeds its
minimum by a threshold; the files become misaligned at the minimum.
"""

import re
import zlib
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_SHIFT = 16
"""The largest shift that is tried, besides the shift at the end of the files."""

LOG_ODDS = 10.0
"""The log of the odds against a false alarm anywhere in the files."""

LENGTH_DEVIATION = 0.35
"""Standard deviation of the log of the length ratio of a pair, about as in European languages."""

SMOOTHING = 6.0
"""Bytes added to both lengths, because single words and names differ more in length than sentences."""

DRIFT = 0.25
"""Gain of a line, in nats, that is ignored if the line counts are equal."""

SHIFT_LINES = 100
"""Number of lines from which the shift is estimated if the line counts are equal."""

ALIKE = 3.0
"""If neighbours differ by fewer bytes, the corpus is sorted, and lengths cannot tell which line is a translation."""

MAX_LINES = 5_000_000
"""Most lines of a file: the features of more lines do not fit into the memory of a small machine."""

WORDS = 4  # how many of a line's longest words are compared; names and loan words occur on both sides

FEATURES = np.dtype([("length", "f4"), ("numbers", "u4"), ("ending", "u1"), ("words", "u2", WORDS)])
NUMBER = re.compile(rb"\d+")
WORD = re.compile(rb"[^\W\d_]{4,}|[\x80-\xff]{4,}")
ENDINGS = b".?!:;,"


class Misalignment(NamedTuple):
    """From `line` on (counted from 0), a source line fits the target line that is `shift` lines further down."""

    line: int
    shift: int

    def describe(self, source: str, target: str) -> str:
        """Describes the misalignment of `source` and `target` in words."""
        behind, ahead = (source, target) if self.shift > 0 else (target, source)
        return (
            f"the first misaligned line is most likely line {self.line + 1:,}: from there on, line n of {behind} fits "
            f"line n + {abs(self.shift)} of {ahead} better (judged by lengths, numbers, punctuation and equal words)"
        )


def find_misalignment(source: Iterable[bytes], target: Iterable[bytes]) -> Misalignment | None:
    """Finds the first misaligned line, judged by lengths, numbers, punctuation and words that occur on both sides.

    With equal line counts, as many lines are lost on one side as on the other, and shifts in both directions are tried.
    Returns None if there is too little evidence, if files with equal line counts are sorted by length, and for files of
    more than `MAX_LINES` lines.
    """
    left, right = (_features(islice(side, MAX_LINES + 1)) for side in (source, target))
    if max(len(left), len(right)) > MAX_LINES:
        return None
    size = min(len(left), len(right))
    median = float(np.median(_log_ratio(left[:size], right[:size]))) if size else 0.0
    # The shift at the end is the difference of the line counts; before the last lost line it is smaller.
    last_shift = len(right) - len(left)
    if last_shift:
        sign = 1 if last_shift > 0 else -1
        shifts = {*range(sign, sign * min(MAX_SHIFT, abs(last_shift)), sign), last_shift}
    elif len(left) > 1 and float(np.median(np.abs(np.diff(left["length"])))) < ALIKE:
        return None  # most lines are as long as the next one, so the lines are sorted by length
    else:
        shifts = {*range(-MAX_SHIFT, MAX_SHIFT + 1)} - {0}
    usual = None if last_shift else max(_mean_fit(left, right, shift, median) for shift in {0, *shifts})
    tests = [_page_test(left, right, shift, median, usual) for shift in shifts]
    alarms = [alarm for alarm in tests if alarm]
    if not alarms:
        return None
    first = min(alarms)[1]
    if last_shift:
        return first
    stop = first.line + SHIFT_LINES
    best_shift = max(shifts, key=lambda shift: _mean_fit(left, right, shift, median, first.line, stop))
    return Misalignment(first.line, best_shift)


def _mean_fit(
    left: NDArray[Any], right: NDArray[Any], shift: int, median: float, start: int = 0, stop: int = MAX_LINES
) -> float:
    """Returns the mean log-likelihood that line i of the left fits line i + shift of the right.

    i runs from `start` to `stop`.
    """
    start, stop = max(start, -shift), min(stop, len(left), len(right) - shift)
    if start >= stop:
        return -np.inf
    return float(_log_likelihood(left[start:stop], right[start + shift : stop + shift], median).mean())


def _page_test(
    left: NDArray[Any], right: NDArray[Any], shift: int, median: float, usual: float | None
) -> tuple[int, Misalignment] | None:
    """Returns the line at which Page's test raises the alarm for `shift`, and the misalignment; None if no alarm.

    If the line counts are equal, `usual` is the mean log-likelihood of a pair of the corpus. It limits the gain of a
    line, because neighbours in a sorted corpus are alike: a line gains at most as much as it falls short of `usual`.
    """
    start, stop = max(0, -shift), min(len(left), len(right), len(right) - shift)
    if start >= stop:
        return None
    shifted = _log_likelihood(left[start:stop], right[start + shift : stop + shift], median)
    unshifted = _log_likelihood(left[start:stop], right[start:stop], median)
    gains = shifted - unshifted if usual is None else np.minimum(shifted, usual) - unshifted - DRIFT
    total = np.cumsum(np.append(0.0, gains))
    is_certain = total - np.minimum.accumulate(total) > LOG_ODDS + np.log(MAX_SHIFT * len(total))
    if is_certain.any():
        alarm = int(is_certain.argmax())
    elif shift == len(right) - len(left) and total[-1] - total.min() > LOG_ODDS / 2:
        alarm = stop - start  # the last lines are known to have this shift, so less evidence is enough
    else:
        return None
    return start + alarm, Misalignment(start + int(total[: alarm + 1].argmin()), shift)


def _log_likelihood(left: NDArray[Any], right: NDArray[Any], median: float) -> NDArray[np.float64]:
    """Returns the log-likelihood, up to a constant, that each pair of lines is a translation."""
    length = np.maximum(-0.5 * ((_log_ratio(left, right) - median) / LENGTH_DEVIATION) ** 2, -8.0)
    same_numbers, any_numbers = left["numbers"] == right["numbers"], (left["numbers"] > 0) | (right["numbers"] > 0)
    numbers = np.where(any_numbers, np.where(same_numbers, 3.0, -2.0), 0.0)
    # In European languages a third of the pairs share a word, but only a few per cent of unrelated lines do.
    words = np.where(_share_word(left["words"], right["words"]), 2.5, -0.25)
    return length + numbers + words + np.where(left["ending"] == right["ending"], 0.5, -1.0)


def _share_word(left: NDArray[np.uint16], right: NDArray[np.uint16]) -> NDArray[np.bool_]:
    shared = np.zeros(len(left), np.bool_)
    for column in range(WORDS):
        words = left[:, column]
        shared |= (words > 0) & (right == words[:, None]).any(1)
    return shared


def _log_ratio(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = np.log((left["length"] + SMOOTHING) / (right["length"] + SMOOTHING))
    return ratio


def _features(lines: Iterable[bytes]) -> NDArray[Any]:
    """Returns each line's length, checksums of its numbers and of its longest words, and the mark that ends it.

    The mark is its number in `ENDINGS`, from 1; 0 means none.
    """
    endings = ((line, ENDINGS.find(line[-1:]) + 1 if line else 0) for line in lines)
    return np.fromiter(((len(line), _numbers(line), ending, _words(line)) for line, ending in endings), FEATURES)


def _words(line: bytes) -> tuple[int, ...]:
    """Returns nonzero checksums of the `WORDS` longest words in a line, padded with 0 if it has fewer."""
    words = sorted(set(WORD.findall(line.lower())), key=len)[-WORDS:]
    return (*(zlib.crc32(word) % 65535 + 1 for word in words), *(0,) * (WORDS - len(words)))


def _numbers(line: bytes) -> int:
    """Returns a checksum of the numbers in a line; 0 if there are none."""
    numbers = NUMBER.findall(line)
    return zlib.crc32(b" ".join(numbers)) if numbers else 0
