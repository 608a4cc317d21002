"""`transduce split` loses no pair, and no near-duplicate is in two sets."""

import random
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from transduce.commands import app
from transduce.corpus.splitting import near_duplicate_groups, split_groups


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
    data = YAML(typ="safe").load(result.stdout[result.stdout.index("data:") :])["data"]
    assert data["test"]["test"]["source"] == str(tmp_path / "out" / "test.source")


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
