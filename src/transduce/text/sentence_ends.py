"""Finds several sentences within a line by their punctuation."""

import re
from collections.abc import Sequence

_TITLES = "Dr|Prof|Mr|Mrs|Ms|St|Sr|Jr|Nr|No|Art|Abs|vs|ca|bzw|etc|usw|Hr|Fr|Col|Gen|Lt|Rev|Hon|Sen|Rep|Inc|Co|Bd"
# A word of at least two characters before the full stop (neither "J." nor an ordinal like "3."), then a capital.
_BOUNDARY = re.compile(
    r"(?:[!?]|(?<![\W\d_])(?<=\w\w)(?<!\d)(?P<stop>\.))[\"'»”’)\]]* +[\"'«“„‘(\[]*(?P<next>[^\W\d_])"
)
_ABBREVIATION = re.compile(rf"(?:\b(?:{_TITLES})|\.\w+)$")


def has_several_sentences(line: str) -> bool:
    """Whether a full stop, "!" or "?" within the line is followed by a space and a capital letter.

    A full stop after a single letter, a number or an abbreviation like "Dr." does not end a sentence.
    """
    return any(
        match["next"].isupper()
        and not (match["stop"] and _ABBREVIATION.search(line[max(0, match.start("stop") - 12) : match.start("stop")]))
        for match in _BOUNDARY.finditer(line)
    )


def several_sentences_in(numbers: Sequence[int], unit: str) -> str:
    """Returns the beginning of a message: which lines or texts, by number, seem to hold several sentences."""
    subject = f"1 {unit} seems" if len(numbers) == 1 else f"{len(numbers):,} {unit}s seem"
    return f"{subject} to hold several sentences (the first: {unit} {numbers[0]:,})"
