"""Every message in the tables of docs/guides/troubleshooting.md is one that the program prints."""

import ast
import os
import re
from errno import EFBIG, ENOENT, ENOSPC
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "troubleshooting.md").read_text("utf-8")
ROWS = re.findall(r"^\| (`.*?) \| ", PAGE, flags=re.MULTILINE)
OTHER_PROGRAMS = ("(of the shell)", "(of pip)")


def texts_of(module: Path) -> list[str]:
    """Returns the strings of a module, with … for the values in an f-string."""
    texts = []
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        match node:
            case ast.JoinedStr(values=values):
                texts.append("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in values))
            case ast.Constant(value=str(text)):
                texts.append(text)
    return texts


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """The strings of the source, and what the system says of missing files and full disks, in lower case."""
    modules = (ROOT / "src" / "transduce").rglob("*.py")
    return [
        *(text for module in modules for text in texts_of(module)),
        *(os.strerror(n).lower() for n in (EFBIG, ENOENT, ENOSPC)),
    ]


@pytest.mark.parametrize("row", ROWS)
def test_the_program_prints_the_message(row: str, texts: list[str]) -> None:
    if row.endswith(OTHER_PROGRAMS):
        return
    for message in row.split(" or "):
        parts = re.findall(r"`([^`]+)`", message)
        pattern = re.compile(".*".join(map(re.escape, parts)), flags=re.DOTALL)
        assert any(pattern.search(text) for text in texts), message


def test_the_tables_were_read() -> None:
    assert len(ROWS) >= 30
