"""Names that are wrong are said before torch is imported, which takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from micro_run import forked
from transduce.commands import main

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
    "train in.txt --out out": "in.txt: name one recipe, a file .yaml; `transduce suggest SOURCE TARGET --minutes 60 ",
    "train in.txt in.txt --out out": "in.txt in.txt: name one recipe, a file .yaml; `transduce suggest in.txt in.txt ",
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train recipe.yaml --out out --steps 5", "there is no option --steps; write --set training.steps=VALUE"),
        ("train recipe.yaml --out out --lr 5", "there is no option --lr; write --set training.schedule.peak=VALUE"),
        ("translate run in.txt --beam-size 5", "there is no option --beam-size; write --beam N"),
        ("translate run --input in.txt", "there is no option --input; write the file without an option"),
        ("evaluate run --epochs 5", "No such option: --epochs"),
        ("generate", "there is no command `generate`; it is `transduce translate RUN FILE`"),
        ("prepare recipe.yaml", "there is no command `prepare`; it is `transduce train RECIPE --out RUN --prepare`"),
        (
            "train recipe.yaml --out out --set training.steps 5",
            "5: name one recipe; `--set KEY=VALUE` has an equals sign",
        ),
        ("evaluate run in.txt in.txt", "in.txt in.txt: name texts by options: --source FILE --reference FILE"),
        ("draw run the owl --out a.html", "(owl); put the sentence into quotes"),
        ("translate", "for example: transduce translate runs/mine input.txt --out output.txt"),
        ("train recipe.yaml", "for example: transduce train recipe.yaml --out runs/mine"),
        ("translate run page.pdf", "page.pdf is a PDF: save it as text; `transduce translate-document` reads"),
        ("verify run", "there is no command `verify`; it is `transduce info RUN --verify`"),
        ("fetch wmt16", "there is no corpus `wmt16`; corpora: wmt14-en-de"),
        ("split recipe.yaml --out out", "recipe.yaml has a validation or test set already"),
        ("train lr.yaml --out out", "unknown key `training.lr`; it is `training.schedule.peak` here"),
        ("translate-document run page.pdf", "page.pdf is a PDF, which cannot be read: save it as DOCX, HTML or text"),
        ("translate run in.txt --glossary terms.csv", "terms.csv has commas or semicolons between columns"),
        ("import run --out out", "run is a model directory of transduce already: use it as it is"),
    ],
)
def test_words_of_other_toolkits_and_other_files_are_answered(trained, tmp_path, monkeypatch, capsys, line, message):
    monkeypatch.chdir(tmp_path)
    Path("run").symlink_to(trained)
    Path("in.txt").write_text("cat\n", "utf-8")
    Path("page.pdf").write_bytes(b"%PDF-1.7\n")
    Path("terms.csv").write_text("cat,Katze\ndog;Hund\n", "utf-8")
    Path("recipe.yaml").write_text((trained.parent / "recipe.yaml").read_text("utf-8"), "utf-8")
    Path("lr.yaml").write_text("data: {train: {tsv: x.tsv}}\ntraining: {lr: 0.1}\n", "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_dash_is_standard_input(fluent):
    assert forked("translate", fluent, "-", given=b"cat\n").out == forked("translate", fluent, given=b"cat\n").out


def test_o_is_short_for_out(fluent, tmp_path):
    assert forked("translate", fluent, "-o", tmp_path / "out", given=b"cat\n").code == 0
    assert (tmp_path / "out").read_text("utf-8").strip()
