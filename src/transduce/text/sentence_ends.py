"""Sentences within a line, by their punctuation."""

import re
from collections.abc import Sequence

_TITLES = "Dr|Prof|Mr|Mrs|Ms|St|Sr|Jr|Nr|No|Art|Abs|vs|ca|bzw|etc|usw|Hr|Fr|Col|Gen|Lt|Rev|Hon|Sen|Rep|Inc|Co|Bd"
# A word of two characters or more before the full stop: neither "J." nor an ordinal such as "3."; then a capital.
_BOUNDARY = re.compile(
    r"(?:[!?]|(?<![\W\d_])(?<=\w\w)(?<!\d)(?P<stop>\.))[\"'»”’)\]]* +[\"'«“„‘(\[]*(?P<next>[^\W\d_])"
)
_ABBREVIATION = re.compile(rf"(?:\b(?:{_TITLES})|\.\w+)$")


def has_several_sentences(line: str) -> bool:
    """Judges whether a full stop, "!" or "?" within the line is followed by a space and a capital letter.

    The full stop of a single letter, of a number and of an abbreviation such as "Dr." ends no sentence.
    """
    return any(
        match["next"].isupper()
        and not (match["stop"] and _ABBREVIATION.search(line[max(0, match.start("stop") - 12) : match.start("stop")]))
        for match in _BOUNDARY.finditer(line)
    )


def several_sentences_in(numbers: Sequence[int], unit: str) -> str:
    """Returns which lines or texts, by their numbers, seem to hold several sentences, as the beginning of a message."""
    subject = f"1 {unit} seems" if len(numbers) == 1 else f"{len(numbers):,} {unit}s seem"
    return f"{subject} to hold several sentences (the first: {unit} {numbers[0]:,})"
