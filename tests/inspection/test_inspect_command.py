"""`transduce inspect` names lines in text, JSON and a page, and changes nothing that it reads."""

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.commands import app
from transduce.corpus.misalignment import find_misalignment
from transduce.embedded import split

PAIRS = [(example.source, example.target) for example in split("train")][:150]


def inspect(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["inspect", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_names_of_files_that_are_not_utf8_stand_on_the_page(tmp_path: Path) -> None:
    path = write(tmp_path, PAIRS[:9]).rename(tmp_path / "caf\udce9.tsv")
    inspect(path, "--json", "--html", tmp_path / "page.html")
    assert "<h2>caf?.tsv</h2>" in (tmp_path / "page.html").read_text("utf-8")


def write(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return folder / "pairs.tsv"


def test_text_json_and_page_name_the_same_lines(tmp_path: Path) -> None:
    copied, marked = ("A dog runs.", "A dog runs."), ("One <script>alert(1)</script>.", "كلب <b>يركض</b> بسرعة 狗")
    path = write(tmp_path, [*PAIRS[:40], copied, *PAIRS[40:], marked])
    text = inspect(path, "--html", tmp_path / "page.html")
    assert re.search(r"^  copied +1 +0\.66% +lines 41$", text, flags=re.MULTILINE)
    (values,) = json.loads(inspect(path, "--json"))
    assert values["pairs"] == 152
    assert values["checks"]["copied"]["lines"] == [41]
    assert values["checks"]["markup"]["examples"][0]["number"] == 152
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "كلب &lt;b&gt;يركض&lt;/b&gt; بسرعة 狗" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_corpus_of_copies_is_named_as_a_whole(tmp_path: Path) -> None:
    text = inspect(write(tmp_path, [(source, source) for source, _ in PAIRS]))
    assert "The target is the source throughout the corpus." in text


def test_a_recipe_names_the_sources_of_its_validation_set(tmp_path: Path) -> None:
    write(tmp_path, PAIRS)
    (tmp_path / "recipe.yaml").write_text("data: {train: {tsv: pairs.tsv}, validation: {tsv: pairs.tsv}}\n")
    text = inspect(tmp_path / "recipe.yaml")
    assert "150 of 150 lines (100.0%) of the validation set (pairs.tsv)" in text


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["none.tsv"], "none.tsv"),
        (["one.txt"], "give a recipe"),
        (["one.tmx"], "--from"),
        (["one.txt", "two.txt", "three.txt"], "give a recipe"),
    ],
)
def test_what_cannot_be_read_is_an_error(tmp_path: Path, names: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["inspect", *(str(tmp_path / name) for name in names)])
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_page_is_not_replaced_without_being_told(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("mine")
    result = CliRunner().invoke(app, ["inspect", str(write(tmp_path, PAIRS)), "--html", str(tmp_path / "page.html")])
    assert result.exit_code == 2
    assert "--html" in result.stderr
    assert (tmp_path / "page.html").read_text() == "mine"


def test_lines_out_of_step_are_found_with_equal_line_counts() -> None:
    numbers = [number * 7919 % 9973 for number in range(600)]
    examples = [(f"{n} {'dog ' * (n % 23)}.".encode(), f"{n} {'Hund ' * (n % 23)}!".encode()) for n in numbers]
    source, target = ([pair[side] for pair in examples] for side in (0, 1))
    assert find_misalignment(source, target) is None
    changed = source[:300] + source[301:500] + [b"Planted."] + source[500:]
    found = find_misalignment(changed, target)
    assert found is not None
    assert abs(found.line - 300) <= 1
    assert found.shift == 1


def test_terse_lines_are_not_out_of_step() -> None:
    """The words of an interface: in a list of symbols one language says in a word what the other says in six."""
    names = ["Left and right bracket", "Upward ellipsis", "Real part of a number", "h with line over it", "infinity"]
    short = ["Klammern", "Punkte nach oben", "Realteil", "h quer", "infinity"]
    filler = [
        (f"Sentence {n} has {'a word ' * (n % 9)}.", f"Satz {n} hat {'ein Wort ' * (n % 9)}.") for n in range(400)
    ]
    terse = [(names[n % 5] + " symbol" * (n % 3 == 0), short[n % 5]) for n in range(25)]
    pairs = [*filler[:200], *terse, *filler[200:]]
    source, target = ([pair[side].encode() for pair in pairs] for side in (0, 1))
    assert find_misalignment(source, target) is None


def test_words_of_both_sides_show_a_shift() -> None:
    names = ["Nabla", "Lambda", "Unicode", "Python", "Writer", "Calc", "Impress", "Ubuntu", "Debian", "Kernel"]
    pairs = [
        (f"{names[n * 7 % 10]} window{' dogs' * (n % 3)}", f"Fenster {names[n * 7 % 10]}{' Hund' * (n % 3)}")
        for n in range(300)
    ]
    source, target = ([pair[side].encode() for pair in pairs] for side in (0, 1))
    assert find_misalignment(source, target) is None
    found = find_misalignment(source[:150] + source[151:], target[:-1])
    assert found is not None
    assert abs(found.line - 150) <= 2


@pytest.mark.parametrize("corpus", ["libreoffice-en-de/train", "libreoffice-en-fr/train", "multi30k/train"])
def test_real_corpora_are_in_step(corpus: str) -> None:
    folder = Path(os.environ.get("TRANSDUCE_DATA", "none"))
    target = folder / f"{corpus}.{'fr' if 'fr' in corpus else 'de'}"
    if not target.exists():
        pytest.skip(f"TRANSDUCE_DATA/{corpus} is not there")
    sides = [(folder / f"{corpus}.en"), target]
    assert find_misalignment(*(path.read_bytes().split(b"\n") for path in sides)) is None


def test_what_the_normaliser_would_change_is_counted(tmp_path: Path) -> None:
    odd = [
        ("two  spaces here", "zwei"),
        ("soft\u00adhyphen", "weich\u00adtrennung"),
        ("ｆｕｌｌ", "breit"),
        ("e\u0301", "é"),
    ]
    path = write(tmp_path, [*PAIRS, *odd])
    result = json.loads(inspect(path, "--json"))[0]
    assert result["checks"]["unnormalised"]["lines"] == [151, 152, 153, 154]
    (verdict,) = [line for line in result["verdicts"] if "normaliser" in line]
    for part in ("invisible characters in 2 lines", "white space in 1 lines", "full-width letters in 1 lines"):
        assert part in verdict
    assert "letters that are not composed in 1 lines" in verdict
