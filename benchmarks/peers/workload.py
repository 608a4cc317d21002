"""The work that every system does: Multi30k as the same ids, written as words `w3 w4 …` that any toolkit reads."""

import os
from pathlib import Path
from typing import NamedTuple

from transduce.corpus import Prepared
from transduce.recipe import Recipe, load
from transduce.trainer.train import prepare

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes/multi30k-en-de.yaml"


class Workload(NamedTuple):
    """The folder with both sides of `train` and `validation`, and `vocabulary.txt`; and what they were made from."""

    folder: Path
    recipe: Recipe
    prepared: Prepared


def workload(folder: Path) -> Workload:
    """Prepares the corpus as a recipe does, and writes its ids for the peers."""
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
    """The word that stands for an id."""
    return f"w{number}"


def numbers(text: str) -> list[int]:
    """The ids that a line of such words stands for; what is no such word is left out."""
    return [int(each[1:]) for each in text.split() if each[0] == "w" and each[1:].isdigit()]


def _write(path: Path, sentences: list[list[int]]) -> None:
    """A sentence a line."""
    path.write_text("".join(" ".join(map(word, sentence)) + "\n" for sentence in sentences), "utf-8")
