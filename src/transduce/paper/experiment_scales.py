"""Options and scales of the experiments.

A scale either has the paper's corpora and model sizes, or a small corpus and models whose sizes are divided.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.embedded import split
from transduce.paper.system_presets import read_data
from transduce.parsing.parser import split_treebank_words
from transduce.parsing.trees import parse_tree, words_of
from transduce.recipe.presets import Values
from transduce.recipe.recipe import Recipe, from_values
from transduce.run.train import TrainOptions
from transduce.settings import merged
from transduce.text.lines import read_lines

ScaleName = Literal["small", "paper", "paper-en-fr"]
LanguagePair = Literal["en-de", "en-fr"]

SELF_TRAINED = 20_000  # raw sentences that one parser parses to train another, at the small scale
LONGEST_RAW = 60  # maximum number of words in a raw sentence


class ExperimentOptions(NamedTuple):
    """The options of `transduce paper --run`."""

    scale: ScaleName
    rows: tuple[str, ...]  # to train; empty for all
    seeds: int
    minutes: float | None  # of each run
    work: Path  # the folder of the run directories
    repeats: int
    training: TrainOptions

    def select_rows(self, names: Sequence[str]) -> list[str]:
        """Returns the rows to train, which are all of `names` unless the user has chosen some.

        Raises ValueError if a chosen row is not in `names`.
        """
        for row in self.rows:
            if row not in names:
                raise ValueError(f"--row {row}: choose {', '.join(names)}")
        return list(self.rows or names)


class Scale(NamedTuple):
    """A scale of the translation experiments, read from `scales.yaml`.

    It consists of a corpus, its subwords, the settings of a run, and the sizes of the models.
    """

    name: ScaleName
    corpus: str  # description
    pair: LanguagePair
    values: Values  # sections of a recipe without `model`
    width_divisor: int  # the paper's widths are divided by this in Table 3
    layers_divisor: int
    steps: int  # of Table 3's base
    operations: float | None  # of each run of Table 2; None if each system is trained for the steps of its preset
    minutes: float | None  # maximum minutes of each run of Table 2
    dropout: Mapping[str, float] = {}  # of systems whose dropout on this corpus differs from their preset's

    def recipe(self, model: Values, training: Values, place: str) -> Recipe:
        """Returns the recipe of a model at this scale; error messages refer to the recipe as `place`."""
        values = merged(self.values, {"training": training})
        return from_values({**values, "model": model}, place=place)

    def corpus_named(self, name: Literal["validation", "test"]) -> CorpusSpec:
        """Returns the validation set or the test set of this scale."""
        data = self.recipe({}, {}, self.name).data
        return data.validations[0] if name == "validation" else data.test["test"]


class Treebank(NamedTuple):
    """A scale of the parsing experiments, read from `scales.yaml`.

    It consists of trees for training and testing, raw sentences for self-training, and the settings of the models.
    """

    corpus: str  # description
    train: list[Values]
    test: Values
    raw: Callable[[], Iterator[list[str]]] | None  # None if there is no raw text
    raw_text: str  # description
    raw_weight: float  # number of times a parsed sentence is used for each use of a gold tree
    model: Values  # of the Transformers
    subwords: Values
    training: Values
    decoding: Values
    steps: int | None
    minutes: float | None  # None if the models are the paper's and are trained for `steps`


def scale_named(name: ScaleName) -> Scale:
    """Reads a scale of the translation experiments.

    The small scale uses Multi30k if the folder `TRANSDUCE_DATA` contains it, and the embedded corpus otherwise. Raises
    ValueError if a corpus of the paper's scale is missing.
    """
    folder = _data_folder()
    if name == "small":
        has_multi30k = folder is not None and (folder / "multi30k").is_dir()
        return Scale(**_read_scale("translation", "multi30k" if has_multi30k else "embedded"))
    values = _read_scale("translation", name)
    corpus = f"wmt14-{values['pair']}"
    if folder is None:
        raise ValueError(f"--scale {name}: set TRANSDUCE_DATA to the folder that has {corpus}/")
    if not (folder / corpus).is_dir():
        raise ValueError(f"--scale {name}: there is no {folder / corpus}; recipes/{corpus}-base.yaml lists its files")
    return Scale(**values)


def treebank_of_scale(scale: ScaleName) -> Treebank:
    """Reads a scale of the parsing experiments.

    The small scale uses the CRAFT treebank if the folder `TRANSDUCE_DATA` contains it, and the embedded trees
    otherwise. Raises ValueError if a treebank of the paper's scale is missing, or if the scale has no treebank.
    """
    folder = _data_folder()
    if scale == "paper":
        if folder is None:
            raise ValueError("--scale paper: set TRANSDUCE_DATA to the folder that has penn-treebank/wsj/02 to 23")
        values, raw = _read_scale("parsing", "wall-street-journal"), folder / "penn-treebank" / "raw.txt"
        for section in (*values["train"], values["test"]):
            if not Path(section["trees"]).is_dir():
                raise ValueError(
                    f"--scale paper: there is no {section['trees']}; Table 4 needs sections 02 to 21 and 23 of the WSJ"
                )
        return Treebank(raw=partial(_sentences, raw, limit=None) if raw.exists() else None, **values)
    if scale != "small":
        raise ValueError(f"--scale {scale}: only Table 2 has that pair; use --scale paper")
    if folder is not None and (folder / "craft-treebank").is_dir():
        raw = folder / "europarl-en-de" / "europarl.20k.en"
        values = _read_scale("parsing", "craft")
        return Treebank(raw=partial(_sentences, raw, limit=SELF_TRAINED) if raw.exists() else None, **values)
    return Treebank(
        raw=lambda: (words_of(parse_tree(example.tree)) for example in split("train", seed=2, count=SELF_TRAINED)),
        **_read_scale("parsing", "embedded"),
    )


def _data_folder() -> Path | None:
    return Path(os.environ["TRANSDUCE_DATA"]).resolve() if "TRANSDUCE_DATA" in os.environ else None


def _read_scale(task: str, name: str) -> dict[str, Any]:
    """Returns the values of a scale in `scales.yaml`, with the full paths of its corpora."""

    def with_paths(value: Any) -> Any:
        match value:
            case dict():
                return {key: with_paths(each) for key, each in value.items()}
            case list():
                return [with_paths(each) for each in value]
            case str() if value.startswith("DATA/"):
                return str(_data_folder()) + value.removeprefix("DATA")
        return value

    values: dict[str, Any] = with_paths(read_data("scales.yaml")[task][name])
    return values


def _sentences(path: Path, limit: int | None) -> Iterator[list[str]]:
    """Yields the words of the first `limit` sentences of a text, split as in the Penn Treebank.

    Empty sentences, and sentences of more than `LONGEST_RAW` words, are left out.
    """
    split_words = split_treebank_words()
    words = (split_words(line) for line in read_lines(str(path)))
    return islice((sentence for sentence in words if 1 <= len(sentence) <= LONGEST_RAW), limit)
