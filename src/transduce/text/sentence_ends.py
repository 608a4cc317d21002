"""Recognises lines that contain several sentences by their punctuation."""

import re
from collections.abc import Sequence

_TITLES = "Dr|Prof|Mr|Mrs|Ms|St|Sr|Jr|Nr|No|Art|Abs|vs|ca|bzw|etc|usw|Hr|Fr|Col|Gen|Lt|Rev|Hon|Sen|Rep|Inc|Co|Bd"
# A full stop must follow a word of at least two characters, so that neither "J." nor an ordinal like "3." matches.
_BOUNDARY = re.compile(
    r"(?:[!?]|(?<![\W\d_])(?<=\w\w)(?<!\d)(?P<stop>\.))[\"'»”’)\]]* +[\"'«“„‘(\[]*(?P<next>[^\W\d_])"
)
_ABBREVIATION = re.compile(rf"(?:\b(?:{_TITLES})|\.\w+)$")


def has_several_sentences(line: str) -> bool:
    """Returns True if a line seems to contain several sentences.

    It does if a full stop, "!" or "?" within the line is followed by a space and a capital letter. A full stop after a
    single letter, a number or an abbreviation such as "Dr." does not count. A text with several lines also does.
    """
    return "\n" in line.strip() or any(
        match["next"].isupper()
        and not (match["stop"] and _ABBREVIATION.search(line[max(0, match.start("stop") - 12) : match.start("stop")]))
        for match in _BOUNDARY.finditer(line)
    )


def several_sentences_in(numbers: Sequence[int], unit: str) -> str:
    """Returns the beginning of a message about lines or texts that seem to contain several sentences.

    The message states how many there are and which is the first; `numbers` are their line numbers in ascending order.
    """
    subject = f"1 {unit} seems" if len(numbers) == 1 else f"{len(numbers):,} {unit}s seem"
    return f"{subject} to hold several sentences (the first: {unit} {numbers[0]:,})"
