"""Texts as they come in and go out: one line each."""

from collections.abc import Iterable, Iterator, Sequence

__all__ = ["each_text", "one_line", "without_last_space"]


def each_text(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yields each text of an iterable without its line end; `name` is the name of a text in messages.

    Raises TypeError where `lines` is no iterable of str; a single str is refused too.
    """
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise TypeError(f"`{name}` is a {type(lines).__name__}: give a list, or another iterable, of str")
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise TypeError(f"`{name}` {number} is a {type(line).__name__}, not a str")
        yield line[:-1].removesuffix("\r") if line.endswith("\n") else line


def one_line(text: str) -> str:
    """Returns the text with spaces for newlines, so that a line in is a line out."""
    return text.replace("\n", " ")


def without_last_space(prefixes: Sequence[str]) -> list[str]:
    """Returns prefixes without the spaces at their ends, which belong to the word that follows."""
    return [prefix.rstrip() for prefix in prefixes]
