"""`transduce split` loses no pair, and no near-duplicate is in two sets."""

import random
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from transduce.commands import app
from transduce.corpus.corpus_kinds import Files
from transduce.corpus.splitting import near_duplicate_groups, split_groups
from transduce.recipe.recipe import load


def corpus() -> list[tuple[str, str]]:
    """Each of 70 sentences up to five times, in other case or with other numbers, in random order."""
    rng = random.Random(3)
    pairs = []
    for number in range(70):
        word = "".join(chr(97 + int(digit)) for digit in f"{number:02}")
        versions = [f"The {word} runs.", f"the {word} runs!", f"The {word} runs 3 times", f"THE {word} RUNS"]
        pairs += [(rng.choice(versions), f"Das {word} läuft {copy}.") for copy in range(rng.randint(1, 5))]
    rng.shuffle(pairs)
    return pairs


def letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalpha()).replace("times", "")


def run(folder: Path, *options: object) -> object:
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in corpus()))
    arguments = ["split", folder / "pairs.tsv", "--validation", 20, "--test", 13, "--out", folder / "out", *options]
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_every_pair_is_in_one_set_and_no_near_duplicate_in_two(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 0, result.output
    read = {}
    for part in ("train", "validation", "test"):
        sides = [(tmp_path / "out" / f"{part}.{side}").read_text("utf-8").splitlines() for side in ("source", "target")]
        read[part] = list(zip(*sides, strict=True))
    assert [len(read[part]) for part in ("validation", "test")] == [20, 13]
    assert sorted(pair for pairs in read.values() for pair in pairs) == sorted(corpus())
    targets = [{letters(target) for _, target in pairs} for pairs in read.values()]
    assert not targets[0] & targets[1] | targets[0] & targets[2] | targets[1] & targets[2]
    assert f"next: transduce suggest {tmp_path}/out/data.yaml" in result.stdout
    data = load(tmp_path / "out" / "data.yaml").data
    assert data.test["test"].source == str(tmp_path / "out" / "test.source")


def split(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["split", *map(str, arguments)])


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    """The corpus as two text files, whose names end with the languages."""
    paths = [tmp_path / "all.en", tmp_path / "all.de"]
    for path, sentences in zip(paths, zip(*corpus(), strict=True), strict=True):
        path.write_text("".join(f"{sentence}\n" for sentence in sentences), "utf-8")
    return paths


def test_data_yaml_has_the_languages_of_the_names_and_moves_with_its_folder(texts: list[Path], tmp_path: Path) -> None:
    assert split(*texts, "--out", tmp_path / "out").exit_code == 0
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    assert sorted(path.name for path in moved.iterdir()) == [
        "data.yaml",
        *(f"{part}.{code}" for part in ("test", "train", "validation") for code in ("de", "en")),
    ]
    data = load(moved / "data.yaml").data
    assert (data.source_language, data.target_language) == ("en", "de")
    assert data.validation == Files(source=f"{moved}/validation.en", target=f"{moved}/validation.de")
    pairs = len(corpus())
    assert len((moved / "validation.en").read_text("utf-8").splitlines()) == pairs // 20


def test_split_takes_what_inspect_takes(texts: list[Path], tmp_path: Path) -> None:
    units = "".join(
        f"<tu><tuv xml:lang='en'><seg>{source}</seg></tuv><tuv xml:lang='de'><seg>{target}</seg></tuv></tu>"
        for source, target in corpus()
    )
    memory, recipe = tmp_path / "pairs.tmx", tmp_path / "recipe.yaml"
    memory.write_text(f"<tmx version='1.4'><header srclang='en'/><body>{units}</body></tmx>", "utf-8")
    recipe.write_text("data: {train: {source: all.en, target: all.de}, source_language: en, target_language: de}")
    for name, arguments in {
        "files": texts,
        "memory": [memory, "--from", "en", "--to", "de"],
        "recipe": [recipe],
    }.items():
        result = split(*arguments, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
    for name in ("memory", "recipe"):
        for path in (tmp_path / name).iterdir():
            assert path.read_bytes() == (tmp_path / "files" / path.name).read_bytes()


def test_recipes_that_one_split_cannot_keep_are_refused(texts: list[Path], tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    files = "{source: all.en, target: all.de}"
    for data, fault in {
        f"train: {files}, validation: {files}": "has a validation or test set already",
        f"train: [{files[:-1]}, tag: web}}, {files}]": "several directions, weights or tags",
    }.items():
        recipe.write_text(f"data: {{{data}}}")
        result = split(recipe, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert fault in result.stderr


def test_empty_sides_connect_no_pairs() -> None:
    pairs = [("a", ""), ("b", " "), ("b", "x"), ("", "y"), ("c", "y"), ("", ""), ("", "")]
    assert near_duplicate_groups(pairs).tolist() == [0, 1, 1, 3, 3, 5, 6]


def test_files_are_kept_without_overwrite_and_seeds_differ(tmp_path: Path) -> None:
    assert run(tmp_path).exit_code == 0
    first = (tmp_path / "out" / "validation.source").read_text("utf-8")
    again = run(tmp_path)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    assert run(tmp_path, "--overwrite").exit_code == 0
    assert (tmp_path / "out" / "validation.source").read_text("utf-8") == first
    assert run(tmp_path, "--overwrite", "--seed", 2).exit_code == 0
    assert (tmp_path / "out" / "validation.source").read_text("utf-8") != first


def test_groups_are_connected_by_either_side() -> None:
    pairs = [("A dog", "Hund"), ("A cat", "Katze"), ("a dog!", "Köter"), ("The cur", "köter."), ("A cow", "Kuh")]
    assert near_duplicate_groups(pairs).tolist() == [0, 1, 0, 0, 4]


def test_sets_that_groups_do_not_fill_are_an_error() -> None:
    with pytest.raises(ValueError, match="none is left"):
        split_groups(np.arange(5), 3, 2, seed=1)
    with pytest.raises(ValueError, match="do not fill"):
        split_groups(np.array([0, 0, 0, 3, 3, 3]), 1, 1, seed=1)
