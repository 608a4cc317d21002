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
        ("train recipe.yaml --out out --resume", "leave it out: the same command resumes a stopped run"),
        ("train recipes.yaml --out out", "there is no recipe recipes.yaml; did you mean `recipe.yaml`?"),
        ("train run --out out", "run is a directory; did you mean `run/recipe.yaml`?"),
        ("train tabs.yaml --out out", "indent with spaces instead of tabs"),
        ("train recipe.yaml --out in.txt", "in.txt is a file; name a new directory"),
        ("train recipe.yaml --out out --set training.steps=1e5", "`training.steps` is 100000.0: write 100000"),
        ("train recipe.yaml --out out --set subwords.kind=spm", '`subwords.kind` is "spm"; kinds: bpe, wordpiece'),
        ("train recipe.yaml --out out --set training.precision=fp16", "did you mean 'float16'?"),
        ("train recipe.yaml --out out --set training.precision=[1]", "`training.precision` is [1]: input should be"),
        ("train recipe.yaml --out out --set training.optimiser=adam", "write `training.optimiser.kind=adam`"),
        ("train recipe.yaml --out out --set model.preset=transformer_base", "did you mean `base`? presets:"),
        ("translate rnu in.txt", "there is no model directory rnu; did you mean `run`?"),
        ("translate run/model.safetensors in.txt", "run/model.safetensors is a file; did you mean `run`?"),
        ("translate run in.txt in.txt", "in.txt in.txt: name one text; `cat` joins several"),
        ("translate run n.txt", "n.txt: no such file or directory; did you mean `in.txt`?"),
        ("translate run in.txt --out in.txt --overwrite", "--out in.txt: that is the file that is read"),
        ("translate-document run in.txt --out in.txt --overwrite", "--out in.txt: that is the file that is read"),
        ("parse run in.txt", "this model translates and does not parse"),
        ("measure in.txt --reference in.txt --metric blue", "metric 'blue' is unknown; did you mean `bleu`?"),
        ("info bse", "did you mean `base`?"),
        ("suggest in.txt in.txt --minutes 1 --out recipe.txt", "the name of a recipe ends in .yaml"),
        ("inspect run", "run is a run; did you mean its recipe, `run/recipe.yaml`?"),
        ("split pairs.csv --out out", "pairs.csv: CSV is not read; write source, tab, target into a file .tsv"),
        ("serve in.txt", "in.txt is a file; name a model directory, as `transduce train RECIPE"),
        ("serve run --host 192.0.2.1", "192.0.2.1:5000: not an address of this machine; leave out --host"),
        ("import owner/model --out out", "`hf download owner/model --local-dir model` downloads it"),
        ("translate run latin.txt", "`iconv -f ISO-8859-1 -t UTF-8` does so if it is Latin-1"),
        ("train recipe.yaml --out out --set steps=5", "unknown key `steps`; did you mean `training.steps`?"),
        ("train empty.yaml --out out", "empty.txt is empty: there is nothing to train on"),
        ("inspect in.txt in.txt", "in.txt in.txt: source and target are the same file"),
        ("suggest in.txt in.txt --minutes 1 --out new.yaml", "in.txt in.txt: source and target are the same file"),
        ("train lr.yaml --out out --set training.batch_size=64", "which counts tokens, not sentences"),
        ("train recipe.yaml --out out --batch-size 64", "training.batch_tokens=VALUE, which counts tokens, not"),
        ("train recipe.yaml --out out --set training.step=5", "`training.step`; did you mean `training.steps`?"),
        ("translate run in.txt --engine local", "without --engine, transduce itself translates"),
        ("translate run recipe.yaml", "`transduce train` trains a recipe"),
        ("serve run --keys none.txt", "--keys: there is no file none.txt; write one with a secret key on each line"),
        ("translate run in.txt --glossary in.txt", "--glossary in.txt: this is the text; a glossary has lines of"),
        ("translate-document run in.txt --glossary in.txt", "--glossary in.txt: this is the text"),
        (
            "translate owner/model in.txt",
            "`hf download owner/model --local-dir X` and `transduce import X --out model`",
        ),
        ("help train", "it is `transduce COMMAND --help`"),
        ("import run --out out", "run is a model directory of transduce already: use it as it is"),
    ],
)
def test_words_of_other_toolkits_and_other_files_are_answered(trained, tmp_path, monkeypatch, capsys, line, message):
    monkeypatch.chdir(tmp_path)
    Path("run").symlink_to(trained)
    Path("in.txt").write_text("cat\n", "utf-8")
    Path("latin.txt").write_bytes("Mädchen\n".encode("latin-1"))
    Path("empty.txt").touch()
    Path("empty.yaml").write_text("data: {train: {source: empty.txt, target: empty.txt}}\n", "utf-8")
    Path("tabs.yaml").write_text("data:\n\ttrain: x\n", "utf-8")
    Path("page.pdf").write_bytes(b"%PDF-1.7\n")
    Path("terms.csv").write_text("cat,Katze\ndog;Hund\n", "utf-8")
    Path("recipe.yaml").write_text((trained.parent / "recipe.yaml").read_text("utf-8"), "utf-8")
    Path("lr.yaml").write_text("data: {train: {tsv: x.tsv}}\ntraining: {lr: 0.1}\n", "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_text_that_is_no_file_is_piped(trained, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["translate", str(trained), "A dog runs."])
    assert ended.value.code == 2
    assert 'echo "A dog runs." | transduce translate RUN' in capsys.readouterr().err


def test_a_test_set_with_exchanged_sides_is_doubted(fluent, tmp_path):
    pytest.importorskip("py3langid")
    german, english = tmp_path / "a.de", tmp_path / "a.en"
    german.write_text("Ein kleiner Hund rennt über das grüne Gras.\n", "utf-8")
    english.write_text("A small dog is running over the green grass.\n", "utf-8")
    doubt = "the source text seems to be German, and the model translates from English"
    assert doubt in forked("evaluate", fluent, "--source", german, "--reference", english).error
    assert "seems to be" not in forked("evaluate", fluent, "--source", english, "--reference", german).error


def test_a_glossary_without_columns_is_doubted(fluent, tmp_path):
    (tmp_path / "terms").write_text("cat\ndog\n", "utf-8")
    ended = forked("translate", fluent, "--glossary", tmp_path / "terms", given=b"cat\n")
    assert "terms has no tab: each of its lines is a term that is not translated" in ended.error
    (tmp_path / "terms").write_text("cat\tKatze\ndog\n", "utf-8")
    assert "has no tab" not in forked("translate", fluent, "--glossary", tmp_path / "terms", given=b"cat\n").error


def test_texts_of_quite_other_lengths_are_not_searched_for_a_misaligned_line(tmp_path):
    long, short = tmp_path / "long", tmp_path / "short"
    long.write_text("".join(f"this is line {n}\n" for n in range(100)), "utf-8")
    short.write_text("".join(f"this is line {n}\n" for n in range(50)), "utf-8")
    error = forked("measure", short, "--reference", long).error
    assert "short has 50 lines and " in error
    assert error.endswith("has 100: they must be equally many\n")
    assert (
        "standard input is empty: name the file to measure" in forked("measure", "--reference", long, given=b"").error
    )


def test_a_dash_is_standard_input(fluent):
    assert forked("translate", fluent, "-", given=b"cat\n").out == forked("translate", fluent, given=b"cat\n").out


def test_o_is_short_for_out(fluent, tmp_path):
    assert forked("translate", fluent, "-o", tmp_path / "out", given=b"cat\n").code == 0
    assert (tmp_path / "out").read_text("utf-8").strip()
