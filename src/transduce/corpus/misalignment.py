"""Finds the line at which two parallel files become misaligned, whether or not they have the same number of lines.

If a line is missing from one file, then from there on its line i matches line i + shift of the other file better than
line i. For each shift, the gain in log-likelihood is summed over the lines. The CUSUM test (Page 1954) raises an alarm
when the sum exceeds its previous minimum by a threshold. The files become misaligned at the line of that minimum.
"""

import re
import zlib
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_SHIFT = 16
"""The largest shift that is tried. The difference between the line counts is tried even if it is larger."""

LOG_ODDS = 10.0
"""How unlikely a false alarm anywhere in the files must be, as log odds."""

LENGTH_DEVIATION = 0.35
"""The standard deviation of the log length ratio of a pair, which is typical of European languages."""

SMOOTHING = 6.0
"""Bytes added to both lengths before their ratio is computed.

Without them, single words and names would have much more extreme ratios than sentences.
"""

DRIFT = 0.25
"""Nats subtracted from the gain of each line if the line counts are equal, so that small gains do not add up."""

SHIFT_LINES = 100
"""The number of lines from which the shift is estimated if the line counts are equal."""

ALIKE = 3.0
"""If the median length difference between adjacent lines is less than this many bytes, the corpus counts as sorted.

In a corpus that is sorted by length, the lengths do not show which line is the translation.
"""

MAX_LINES = 5_000_000
"""The maximum number of lines in a file. The features of more lines would not fit in the memory of a small machine."""

WORDS = 4  # number of longest words per line that are compared; names and loan words occur on both sides

FEATURES = np.dtype([("length", "f4"), ("numbers", "u4"), ("ending", "u1"), ("words", "u2", WORDS)])
NUMBER = re.compile(rb"\d+")
WORD = re.compile(rb"[^\W\d_]{4,}|[\x80-\xff]{4,}")
ENDINGS = b".?!:;,"


class Misalignment(NamedTuple):
    """The first misaligned line, counted from 0, and the shift: from there on, line i fits target line i + `shift`."""

    line: int
    shift: int

    def describe(self, source: str, target: str) -> str:
        """Describes the misalignment in words. `source` and `target` are the names of the two sides."""
        behind, ahead = (source, target) if self.shift > 0 else (target, source)
        return (
            f"the first misaligned line is most likely line {self.line + 1:,}: from there on, line n of {behind} fits "
            f"line n + {abs(self.shift)} of {ahead} better (judged by lengths, numbers, punctuation and equal words)"
        )


def find_misalignment(source: Iterable[bytes], target: Iterable[bytes]) -> Misalignment | None:
    """Returns the first misaligned line and the shift, or None if no misalignment is found.

    Lines are compared by length, numbers, final punctuation and words that occur on both sides. If the line counts are
    equal, as many lines must be missing on one side as on the other, so shifts in both directions are tried. No
    misalignment is reported if the evidence is too weak, if files with equal line counts are sorted by length, or if a
    file has more than `MAX_LINES` lines.
    """
    left, right = (_features(islice(side, MAX_LINES + 1)) for side in (source, target))
    if max(len(left), len(right)) > MAX_LINES:
        return None
    size = min(len(left), len(right))
    median = float(np.median(_log_ratio(left[:size], right[:size]))) if size else 0.0
    # At the end of the files, the shift is the difference between the line counts. Before the last lost line, it is
    # smaller.
    last_shift = len(right) - len(left)
    if last_shift:
        sign = 1 if last_shift > 0 else -1
        shifts = {*range(sign, sign * min(MAX_SHIFT, abs(last_shift)), sign), last_shift}
    elif len(left) > 1 and float(np.median(np.abs(np.diff(left["length"])))) < ALIKE:
        return None  # adjacent lines are about equally long, so the file is sorted by length
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
    """Returns the mean log-likelihood that line i on the left is a translation of line i + `shift` on the right.

    The mean is taken over the lines i from `start` to `stop`. It is −∞ if there are none.
    """
    start, stop = max(start, -shift), min(stop, len(left), len(right) - shift)
    if start >= stop:
        return -np.inf
    return float(_log_likelihood(left[start:stop], right[start + shift : stop + shift], median).mean())


def _page_test(
    left: NDArray[Any], right: NDArray[Any], shift: int, median: float, usual: float | None
) -> tuple[int, Misalignment] | None:
    """Runs the CUSUM test for one shift.

    Returns the line at which the test raises an alarm, and the misalignment, or None if there is no alarm. If the line
    counts are equal, `usual` is the mean log-likelihood of a pair at the best shift. The gain of a line is then at most
    the amount by which the unshifted pair falls short of `usual`, because adjacent lines of a sorted corpus resemble
    each other.
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
        alarm = stop - start  # less evidence is needed, because the last lines are known to have this shift
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
    """Returns the features of each line by which lines are compared.

    These are its length, checksums of its numbers and of its longest words, and its final punctuation mark. The mark is
    represented by its 1-based index in `ENDINGS`, or by 0 if there is none.
    """
    endings = ((line, ENDINGS.find(line[-1:]) + 1 if line else 0) for line in lines)
    return np.fromiter(((len(line), _numbers(line), ending, _words(line)) for line, ending in endings), FEATURES)


def _words(line: bytes) -> tuple[int, ...]:
    """Returns nonzero checksums of the `WORDS` longest words in a line, padded with 0 if it has fewer."""
    words = sorted(set(WORD.findall(line.lower())), key=len)[-WORDS:]
    return (*(zlib.crc32(word) % 65535 + 1 for word in words), *(0,) * (WORDS - len(words)))


def _numbers(line: bytes) -> int:
    """Returns a checksum of the numbers in a line, or 0 if there are none."""
    numbers = NUMBER.findall(line)
    return zlib.crc32(b" ".join(numbers)) if numbers else 0
