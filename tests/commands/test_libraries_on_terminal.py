"""Libraries that write colours: nothing of them is shown in letters on a terminal, and texts are still escaped."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

# Imports every library within the first command, when the streams are wrapped, then runs the commands.
COMMANDS = """
import contextlib, importlib, json, sys, warnings

libraries, *commands = json.loads(sys.argv[1])
from transduce.commands import exit_codes, main

@contextlib.contextmanager
def importing():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in libraries:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    with shown():
        yield

shown, exit_codes.progress_on_terminal = exit_codes.progress_on_terminal, importing
codes = []
for command in commands:
    try:
        main(command)
    except SystemExit as ended:
        codes.append(ended.code or 0)
from numba.core.errors import termcolor
print(termcolor().errmsg("a message of numba"), "codes", codes)
"""


def libraries_of_extras() -> list[str]:
    """The modules of all extras that are installed, and of libraries that are known to write escapes."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in ("test", "check")}
    wanted = {re.split(r"[^\w.-]", line)[0].lower() for lines in extras.values() for line in lines}
    modules = [name for name, packages in packages_distributions().items() if wanted & {*map(str.lower, packages)}]
    return ["colorama", "tqdm.auto", *sorted(name for name in modules if name.isidentifier())]


def on_terminal(command: list[str]) -> str:
    """All that a process prints on a terminal until it has ended."""
    terminal, stream = pty.openpty()
    printed: list[bytes] = []

    def collect() -> None:
        with contextlib.suppress(OSError):  # the end of a terminal
            while content := os.read(terminal, 100_000):
                printed.append(content)

    reader = threading.Thread(target=collect)
    reader.start()
    values = os.environ | {"TERM": "xterm", "COLUMNS": "200"}
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, timeout=100, env=values)
    os.close(stream)
    reader.join(60)
    os.close(terminal)
    return b"".join(printed).decode()


def test_libraries_write_nothing_in_letters_and_texts_are_escaped(fluent, micro, tmp_path):
    libraries = libraries_of_extras()
    assert {"colorama", "numba", "transformers", "ctranslate2", "onnxruntime"} <= {*libraries}
    commands = [
        ["translate", fluent, micro / "test.en"],
        ["train", micro / "recipe.yaml", "--out", tmp_path / "run", "--set", "training.steps=2"],
        ["suggest", micro / "recipe.yaml", "--minutes", 0.01],
        ["translate", fluent, "missing\x1b[0m"],
    ]
    values = json.dumps([libraries, *([str(each) for each in command] for command in commands)])
    printed = on_terminal([sys.executable, "-c", COMMANDS, values])
    assert "a message of numba codes [0, 0, 0, 2]" in printed, printed
    assert "missing\\x1b[0m" in printed
    assert printed.replace("missing\\x1b[0m", "").count("\\x") == 0, printed
    assert "missing\x1b" not in printed
