"""Lines to be measured: read from a file or standard input, refused where they are no plain text."""

import re
import sys
from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path

__all__ = ["lines_of", "read_lines", "read_texts", "refuse_markup"]

_SGML = re.compile(r"\s*<(seg|refset|srcset|tstset|mteval)\b", re.IGNORECASE)


def read_lines(path: str) -> list[str]:
    r"""The lines of the file at `path`, or of standard input where it is `-`.

    A line ends at "\n" and nowhere else; a "\r" before it is dropped, and the last "\n" may be missing.
    A `ValueError` names the first line that is not UTF-8, or that is SGML or XML markup.
    """
    if path == "-":
        return lines_of(_standard_input(), "standard input")
    return lines_of(Path(path).read_bytes(), path)


def read_texts(*paths: str) -> list[list[str]]:
    """The lines of several texts, as `read_lines` has them; standard input can be one of them, and not two."""
    if paths.count("-") > 1:
        raise ValueError("-: standard input can be read once; name a file for the other text")
    return [read_lines(path) for path in paths]


def lines_of(content: bytes, name: str, before: int = 0) -> list[str]:
    """The lines of a file's `content`, or of whole lines of it that have so many `before` them."""
    text = _decoded(content, name, before)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    refuse_markup(lines, name, before)
    return lines


def _standard_input() -> bytes:
    """All of it; an `OSError` where whoever started the program has closed it."""
    if sys.stdin is None:
        raise OSError("standard input is closed; name a file, or write the text into a pipe")
    return sys.stdin.buffer.read()


def _decoded(content: bytes, name: str, before: int) -> str:
    """`content` as text, without the byte order mark that a file may begin with."""
    if not before:
        content = content.removeprefix(BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        number = before + content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{name}: line {number} is not UTF-8; convert the file to UTF-8") from None


def refuse_markup(lines: Sequence[str], name: str, before: int = 0) -> None:
    """A `ValueError` for WMT's `.sgm` and `.xml` files, whose markup would be scored as if it were words."""
    for number, line in enumerate(lines, start=before + 1):
        if _SGML.match(line):
            raise ValueError(
                f"{name}: line {number} is markup, not text: {line.strip()[:60]!r}; "
                "take the segments out of it first, one a line (`sacrebleu --echo` does it for WMT's tests)"
            )
