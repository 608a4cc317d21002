"""Options and scales of the experiments: the paper's corpus and sizes, or a small corpus with all sizes divided."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.recipe.presets import Values
from transduce.recipe.recipe import Recipe, from_values
from transduce.run.train import TrainOptions
from transduce.settings import merged

ScaleName = Literal["small", "paper", "paper-en-fr"]
LanguagePair = Literal["en-de", "en-fr"]


class ExperimentOptions(NamedTuple):
    """The options of `transduce paper --run`."""

    scale: ScaleName
    rows: tuple[str, ...]  # to train; empty for all
    seeds: int
    minutes: float | None  # of each training
    work: Path  # the folder of the run directories
    repeats: int
    training: TrainOptions

    def select_rows(self, names: Sequence[str]) -> list[str]:
        """Returns the rows to train; raises ValueError for a row that is not in `names`."""
        for row in self.rows:
            if row not in names:
                raise ValueError(f"--row {row}: choose {', '.join(names)}")
        return list(self.rows or names)


class Scale(NamedTuple):
    """A corpus, its subwords, the settings of a training, and the sizes of the models."""

    name: ScaleName
    corpus: str  # description
    pair: LanguagePair
    values: Values  # sections of a recipe without `model`
    width_divisor: int  # the paper's widths are divided by this in Table 3
    layers_divisor: int
    steps: int  # of Table 3's base
    operations: float | None  # of each training of Table 2; None: each system has the steps of its preset
    minutes: float | None  # most minutes of each training of Table 2
    dropout: Mapping[str, float] = {}  # of systems whose dropout on this corpus is not that of their preset

    def recipe(self, model: Values, training: Values, place: str) -> Recipe:
        """Returns the recipe of a model at this scale; errors call it `place`."""
        values = merged(self.values, {"training": training})
        return from_values({**values, "model": model}, place=place)

    def corpus_named(self, name: Literal["validation", "test"]) -> CorpusSpec:
        """Returns the validation set or the test set."""
        data = self.recipe({}, {}, self.name).data
        return data.validations[0] if name == "validation" else data.test["test"]


def scale_named(name: ScaleName) -> Scale:
    """Returns a scale; the small one has Multi30k where `TRANSDUCE_DATA` has it, else the embedded corpus."""
    match name:
        case "small":
            return _small()
        case "paper":
            corpus, subwords = "WMT 2014 en–de, 4.5 million pairs, 37,000 subwords", {"kind": "bpe", "size": 37_000}
            return _paper(name, "en-de", corpus, subwords)
        case "paper-en-fr":
            corpus = "WMT 2014 en–fr, 40.8 million pairs, 32,000 subwords"
            french = _paper(name, "en-fr", corpus, {"kind": "wordpiece", "size": 32_000})
            return french._replace(dropout={"big": 0.1})  # section 6.1


def _files(folder: Path, stem: str, language: str = "de") -> Values:
    """Returns the entry of a parallel corpus with English source."""
    return {"source": str(folder / f"{stem}.en"), "target": str(folder / f"{stem}.{language}")}


def _small() -> Scale:
    """Returns the scale for a laptop."""
    folder = Path(os.environ.get("TRANSDUCE_DATA", "")).resolve() / "multi30k"
    has_multi30k = "TRANSDUCE_DATA" in os.environ and folder.is_dir()
    data: Values = {"source_language": "en", "target_language": "de"}
    if has_multi30k:
        corpus = "Multi30k en–de, 29,000 pairs"
        data |= {"train": _files(folder, "train"), "validation": _files(folder, "val")}
        data |= {"test": {"test": _files(folder, "test_2016_flickr")}}
    else:
        corpus = "the embedded corpus, 40,000 pairs"
        data |= {"train": {"embedded": "train"}, "validation": {"embedded": "validation"}}
        data |= {"test": {"test": {"embedded": "test"}}}
    training = {
        "batch_tokens": 2048,
        "schedule": {"kind": "inverse_square_root", "warmup": 400, "peak": 0.003},
        "clip": 1.0,
        "validate_every": None,
    }
    return Scale(
        name="small",
        pair="en-de",
        corpus=f"{corpus}, 4,000 subwords",
        values={"data": data, "subwords": {"kind": "bpe", "size": 4000}, "training": training},
        width_divisor=4,
        layers_divisor=2,
        steps=1200,
        operations=1.5e13,
        minutes=15.0,
    )


def _paper(name: ScaleName, pair: LanguagePair, corpus: str, subwords: Values) -> Scale:
    """Returns the paper's sizes on a corpus of WMT 2014, in the folder that `TRANSDUCE_DATA` names."""
    place, language = f"wmt14-{pair}", pair[-2:]
    if "TRANSDUCE_DATA" not in os.environ:
        raise ValueError(f"--scale {name}: set TRANSDUCE_DATA to the folder that has {place}/")
    folder = Path(os.environ["TRANSDUCE_DATA"]).resolve() / place
    if not folder.is_dir():
        raise ValueError(f"--scale {name}: there is no {folder}; recipes/{place}-base.yaml lists its files")
    data = {
        "train": _files(folder, "train", language),
        "validation": _files(folder, "newstest2013", language),
        "test": {"test": _files(folder, "newstest2014", language)},
        "source_language": "en",
        "target_language": language,
    }
    return Scale(
        name=name,
        pair=pair,
        corpus=corpus,
        values={"data": data, "subwords": subwords, "training": {"validate_every": None}},
        width_divisor=1,
        layers_divisor=1,
        steps=100_000,
        operations=None,
        minutes=None,
    )
