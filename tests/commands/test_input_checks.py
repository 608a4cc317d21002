"""Names that are wrong are said before torch is imported, which takes seconds."""

import subprocess
import sys

RUN = """
import sys
from transduce.commands import main

for arguments in {lines!r}:
    try:
        main(arguments)
    except SystemExit as ended:
        print(ended.code, "torch" in sys.modules, flush=True)
"""

WRONG = {
    "translate no-run in.txt": "there is no model directory no-run",
    "translate run no.txt": "no.txt: no such file or directory",
    "translate run in.txt --prefix no.txt": "no.txt: no such file or directory",
    "translate in.txt run": "in.txt is a file: name the model first, then the text: `run in.txt`",
    "translate-document no-run page.html": "there is no model directory no-run",
    "translate-corpus no-run in.txt --out out": "there is no model directory no-run",
    "parse no-run": "there is no model directory no-run",
    "score no-run --source in.txt --target in.txt": "there is no model directory no-run",
    "evaluate no-run --test news": "there is no model directory no-run",
    "calibrate no-run": "there is no model directory no-run",
    "report no-run --out report.html": "there is no model directory no-run",
    "draw no-run text --out picture.html": "there is no model directory no-run",
    "distil no-run --source in.txt --out student": "there is no model directory no-run",
    "average no-run --last 2 --out mean": "there is no model directory no-run",
    "train no.yaml --out out": "there is no recipe no.yaml",
    "train in.txt --out out": "in.txt holds no sections; a recipe begins with `data:`",
}


def test_wrong_names_are_said_before_torch_is_imported(tmp_path, trained):
    (tmp_path / "in.txt").write_text("cat\n", "utf-8")
    (tmp_path / "page.html").write_text("<p>cat</p>\n", "utf-8")
    (tmp_path / "run").symlink_to(trained)
    program = RUN.format(lines=[line.split() for line in WRONG])
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert ended.stdout.splitlines() == ["2 False"] * len(WRONG), ended.stderr
    for message, expected in zip(ended.stderr.splitlines(), WRONG.values(), strict=True):
        assert message.startswith(f"transduce: {expected}")
