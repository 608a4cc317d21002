"""The shape of the source: few modules at the top, short files and functions, one class of a name."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "transduce"
MODULES = sorted(PACKAGE.rglob("*.py"))

LONGEST_FILE = 300  # lines
LONGEST_FUNCTION = 40  # lines, without the declarations of a command's options


def title(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def classes(path: Path) -> Iterator[str]:
    """The names of the classes that a module defines, private ones included."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef):
            yield node.name


def function_lengths(path: Path) -> dict[str, int]:
    """The lines of each function's body; a command's parameters declare its options and do not count."""
    lengths = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0].lineno if path.parent.name == "commands" else node.lineno
            lengths[node.name] = node.end_lineno - first + 1
    return lengths


def text_writes(path: Path) -> Iterator[ast.Call]:
    """The calls of a module that write text into a file: `write_text`, and `open` for writing."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        modes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        if name == "write_text" or (name == "open" and any(map(_writes_text, modes))):
            yield node


def _writes_text(argument: ast.expr) -> bool:
    """Whether an argument of `open` is a mode that writes text."""
    mode = argument.value if isinstance(argument, ast.Constant) else None
    return isinstance(mode, str) and re.fullmatch(r"[wax][t+]*", mode) is not None


@pytest.mark.parametrize("path", MODULES, ids=title)
def test_text_files_have_line_feeds_on_every_system(path: Path) -> None:
    """Windows would write carriage returns, so that equal texts would have other checksums."""
    for call in text_writes(path):
        assert "newline" in {keyword.arg for keyword in call.keywords} or "os.devnull" in ast.unparse(call), call.lineno


def test_few_modules_lie_at_the_top() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 7


def test_the_contract_has_at_most_ten_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    assert 1 < len(layers) <= 10
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    rooms |= {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert {name.strip().removeprefix("transduce.") for layer in layers for name in layer.split("|")} == rooms


def test_no_two_classes_share_a_name() -> None:
    names = Counter(name for path in MODULES for name in classes(path))
    assert not [name for name, count in names.items() if count > 1]


@pytest.mark.parametrize("path", MODULES, ids=title)
def test_files_and_functions_are_short(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST_FILE
    assert not {name: lines for name, lines in function_lengths(path).items() if lines > LONGEST_FUNCTION}
