"""The shape of the source: one class of a name, text files with line feeds, no more `Any` than there is."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from transduce.settings import from_satellite

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "transduce"
MODULES = sorted(PACKAGE.rglob("*.py"))

TWICE, COMMANDS, OPTIONS, DISTINCT = 5, 24, 16, 80
ANY, TYPE_IGNORES = 544, 13  # in the whole package


def title(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def classes(path: Path) -> Iterator[str]:
    """The names of the classes that a module defines, private ones included."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef):
            yield node.name


def text_writes(path: Path) -> Iterator[ast.Call]:
    """The calls of a module that write text into a file: `write_text`, and `open` for writing."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        modes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        is_of_zip = ast.unparse(node.func) == "archive.open"  # a file of an archive has bytes
        if name == "write_text" or (name == "open" and not is_of_zip and any(map(_writes_text, modes))):
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


def test_no_two_classes_share_a_name() -> None:
    names = Counter(name for path in MODULES for name in classes(path))
    assert not [name for name, count in names.items() if count > 1]


def test_names_of_modules_occur_once() -> None:
    """A name that occurs twice has to be read with its folder: lower the number when it sinks."""
    names = Counter(path.stem for path in MODULES if path.stem not in ("__init__", "__main__"))
    assert len([name for name, count in names.items() if count > 1]) <= TWICE


def test_the_command_line_stays_small() -> None:
    """Each command and each option is a decision that somebody has to make: lower the numbers when they sink."""
    lines = (ROOT / "tests" / "commands" / "interface.tsv").read_text("utf-8").splitlines()
    options = [line.split("\t")[:2] for line in lines if line.split("\t")[1].startswith("--")]
    options = [option for option in options if option[1] != "--quiet/-q"]  # which all have, as they have --help
    of_command = Counter(command for command, _ in options)
    assert len({line.split("\t")[0] for line in lines}) <= COMMANDS
    assert of_command.pop("translate") <= 24
    assert max(of_command.values()) <= OPTIONS
    assert len({name.partition("/")[0] for _, name in options}) <= DISTINCT


def test_what_the_core_looks_up_by_name_is_in_a_satellite() -> None:
    constants = (node for path in MODULES for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    strings = {node.value for node in constants if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = sorted(string for string in strings if re.fullmatch(r"transduce(\.\w+)+:\w+", string))
    assert len(names) > 10
    for name in names:
        assert from_satellite(name) is not None


def test_no_more_is_hidden_from_the_type_checker() -> None:
    """Lower both numbers when the code has fewer."""
    trees = [ast.parse(path.read_text("utf-8")) for path in MODULES]
    names = [node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)]
    assert names.count("Any") <= ANY
    assert sum(path.read_text("utf-8").count("type: ignore") for path in MODULES) <= TYPE_IGNORES
