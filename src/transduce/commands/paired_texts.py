"""Reads parallel texts, such as a source and its translations, in which lines with the same number belong together."""

from collections.abc import Sequence


def read_paired_texts(*paths: str) -> list[list[str]]:
    """Reads texts that must have the same number of lines; raises ValueError like `check_paired`."""
    from transduce.text.lines import read_texts

    texts = read_texts(*paths)
    check_paired(paths, texts)
    return texts


def check_paired(paths: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Raises ValueError if a text has more or fewer lines than the first text.

    If the line from which the two texts are misaligned can be found, the message names it.
    """
    first, *others = ["standard input" if path == "-" else path for path in paths]
    for name, lines in zip(others, texts[1:], strict=True):
        if first == "standard input" and not texts[0]:
            raise ValueError("standard input is empty: name the file to measure, or pipe it into the command")
        if len(lines) != len(texts[0]):
            are_close = _are_close(len(lines), len(texts[0]))
            place = _place_of_misalignment(first, texts[0], name, lines) if are_close else ""
            raise ValueError(
                f"{first} has {len(texts[0]):,} lines and {name} has {len(lines):,}: they must be equally many{place}"
            )


def _are_close(length: int, other: int) -> bool:
    """Returns True if two line counts differ by at most a tenth.

    If they differ more, the texts are probably unrelated, and looking for a misaligned line makes no sense.
    """
    return min(length, other) >= 0.9 * max(length, other)


def _place_of_misalignment(first: str, lines: Sequence[str], second: str, others: Sequence[str]) -> str:
    """Describes the first misaligned line in words; returns an empty string if no such line is found."""
    from transduce.corpus.misalignment import find_misalignment

    misalignment = find_misalignment((line.encode() for line in lines), (line.encode() for line in others))
    return f"; {misalignment.describe(first, second)}" if misalignment else ""
