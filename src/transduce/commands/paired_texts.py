"""Texts whose lines belong together: line n of each is about the same sentence."""

from collections.abc import Sequence

__all__ = ["check_paired", "read_paired_texts"]


def read_paired_texts(*paths: str) -> list[list[str]]:
    """Reads texts of equally many lines; raises ValueError as `check_paired` does."""
    from transduce.text.lines import read_texts

    texts = read_texts(*paths)
    check_paired(["standard input" if path == "-" else path for path in paths], texts)
    return texts


def check_paired(paths: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Raises ValueError for a text with more or fewer lines than the first one; names where they get out of step."""
    for path, lines in zip(paths[1:], texts[1:], strict=True):
        if len(lines) != len(texts[0]):
            raise ValueError(
                f"{paths[0]} has {len(texts[0]):,} lines and {path} has {len(lines):,}: they must be equally many"
                + _place_of_misalignment(paths[0], texts[0], path, lines)
            )


def _place_of_misalignment(first: str, lines: Sequence[str], second: str, others: Sequence[str]) -> str:
    """Returns the first misaligned line in words; nothing where no line shows it."""
    from transduce.corpus.misalignment import find_misalignment

    misalignment = find_misalignment((line.encode() for line in lines), (line.encode() for line in others))
    return f"; {misalignment.describe(first, second)}" if misalignment else ""
