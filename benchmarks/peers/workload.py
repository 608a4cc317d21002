"""The workload of every system: a corpus as the same ids, written as words `w3 w4 …` that any toolkit reads."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.corpus.store.preparation import PreparedCorpus
from transduce.recipe.recipe import Recipe, load
from transduce.run.train import prepare
from transduce.text.lines import read_lines

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes/multi30k-en-de.yaml"
# The peers have one vocabulary for both sides, as in the publication of the model.
ONE_VOCABULARY = ("subwords.shared=true", "subwords.size=10000", "model.embeddings=shared")


class Workload(NamedTuple):
    """A folder with both sides of `train`, `validation` and each test set; their recipe and prepared corpus."""

    folder: Path
    recipe: Recipe
    prepared: PreparedCorpus

    @property
    def corpora(self) -> dict[str, CorpusSpec]:
        """The validation set and the test sets by name."""
        (validation,) = self.recipe.data.validations
        return {"validation": validation, **self.recipe.data.test}


def prepare_workload(folder: Path, recipe_path: Path = RECIPE, changes: Sequence[str] = ONE_VOCABULARY) -> Workload:
    """Prepares the corpora of a recipe with changes, Multi30k's if not given, and writes their ids for the peers."""
    if "TRANSDUCE_DATA" not in os.environ:
        raise SystemExit("set TRANSDUCE_DATA to the folder that has the corpora, such as multi30k/")
    recipe = load(recipe_path, changes)
    prepared = prepare(recipe, folder)
    size = prepared.source.size
    (folder / "vocabulary.txt").write_text("".join(f"{word(number)}\n" for number in range(3, size)), "utf-8")
    store = prepared.train
    _write(folder / "train.src", [store.sentence("source", number).tolist() for number in range(len(store))])
    _write(folder / "train.trg", [store.sentence("target", number).tolist() for number in range(len(store))])
    work = Workload(folder, recipe, prepared)
    for name, corpus in work.corpora.items():
        for side, subwords, key in (("src", prepared.source, "source"), ("trg", prepared.target, "target")):
            _write(folder / f"{name}.{side}", subwords.encode(read_lines(corpus.as_dictionary()[key])))
    return work


def word(number: int) -> str:
    """Returns the word that stands for an id."""
    return f"w{number}"


def parse_ids(line: str) -> list[int]:
    """Returns the ids of a line of words; words that stand for no id are left out."""
    return [int(word[1:]) for word in line.split() if word[0] == "w" and word[1:].isdigit()]


def _write(path: Path, sentences: list[list[int]]) -> None:
    """Writes the words of each sentence on a line."""
    path.write_text("".join(" ".join(map(word, sentence)) + "\n" for sentence in sentences), "utf-8")
