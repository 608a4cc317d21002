"""Sentences within a line, by their punctuation."""

import re

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
