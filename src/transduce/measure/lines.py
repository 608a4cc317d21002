"""Lines to be measured: read from a file or standard input, refused where they are no plain text."""

import re
import sys
from codecs import BOM_UTF8
from pathlib import Path

__all__ = ["read_lines"]

_SGML = re.compile(r"\s*<(seg|refset|srcset|tstset|mteval)\b", re.IGNORECASE)


def read_lines(path: str) -> list[str]:
    r"""The lines of the file at `path`, or of standard input where it is `-`.

    A line ends at "\n" and nowhere else; a "\r" before it is dropped, and the last "\n" may be missing.
    A `ValueError` names the first line that is not UTF-8, or that is SGML or XML markup.
    """
    name = "standard input" if path == "-" else path
    text = _decoded(_standard_input() if path == "-" else Path(path).read_bytes(), name)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    _refuse_markup(lines, name)
    return lines


def _standard_input() -> bytes:
    """All of it; an `OSError` where whoever started the program has closed it."""
    if sys.stdin is None:
        raise OSError("standard input is closed; name a file, or write the text into a pipe")
    return sys.stdin.buffer.read()


def _decoded(content: bytes, name: str) -> str:
    """`content` as text, without a byte order mark."""
    content = content.removeprefix(BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{name}: line {number} is not UTF-8; convert the file to UTF-8") from None


def _refuse_markup(lines: list[str], name: str) -> None:
    """Stops WMT's `.sgm` and `.xml` files, whose markup would be scored as if it were words."""
    for number, line in enumerate(lines, start=1):
        if _SGML.match(line):
            raise ValueError(
                f"{name}: line {number} is markup, not text: {line.strip()[:60]!r}; "
                "take the segments out of it first, one a line (`sacrebleu --echo` does it for WMT's tests)"
            )
