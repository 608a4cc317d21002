"""The workload of every system: Multi30k as the same ids, written as words `w3 w4 …` that any toolkit reads."""

import os
from pathlib import Path
from typing import NamedTuple

from transduce.corpus import Prepared
from transduce.recipe import Recipe, load
from transduce.trainer.train import prepare

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes/multi30k-en-de.yaml"


class Workload(NamedTuple):
    """A folder with both sides of `train` and `validation` and `vocabulary.txt`; their recipe and prepared corpus."""

    folder: Path
    recipe: Recipe
    prepared: Prepared


def prepare_workload(folder: Path) -> Workload:
    """Prepares the corpus of the recipe, and writes its ids for the peers."""
    if "TRANSDUCE_DATA" not in os.environ:
        raise SystemExit("set TRANSDUCE_DATA to the folder that has multi30k/")
    recipe = load(RECIPE)
    prepared = prepare(recipe, folder, print)
    size = prepared.source.size
    (folder / "vocabulary.txt").write_text("".join(f"{word(number)}\n" for number in range(3, size)), "utf-8")
    store = prepared.train
    _write(folder / "train.src", [store.sentence("source", number).tolist() for number in range(len(store))])
    _write(folder / "train.trg", [store.sentence("target", number).tolist() for number in range(len(store))])
    validation = recipe.data.validation
    assert validation is not None
    for side, subwords, name in (("src", prepared.source, "source"), ("trg", prepared.target, "target")):
        lines = Path(validation.as_dictionary()[name]).read_text("utf-8").splitlines()
        _write(folder / f"validation.{side}", subwords.encode(lines))
    return Workload(folder, recipe, prepared)


def word(number: int) -> str:
    """Returns the word that stands for an id."""
    return f"w{number}"


def parse_ids(line: str) -> list[int]:
    """Returns the ids of a line of words; words that stand for no id are left out."""
    return [int(word[1:]) for word in line.split() if word[0] == "w" and word[1:].isdigit()]


def _write(path: Path, sentences: list[list[int]]) -> None:
    """Writes the words of each sentence on a line."""
    path.write_text("".join(" ".join(map(word, sentence)) + "\n" for sentence in sentences), "utf-8")
