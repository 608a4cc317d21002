"""Where the experiments are made: on the paper's corpus at its size, or on a small one, everything shrunk alike."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from transduce.corpus import CorpusSpec
from transduce.recipe import Recipe, from_values
from transduce.recipe.presets import Values
from transduce.settings import merged

__all__ = ["Scale", "ScaleName", "scale"]

ScaleName = Literal["small", "paper", "paper-en-fr"]


class Scale(NamedTuple):
    """A corpus, how it is cut, how one trains on it, and how large everything is."""

    name: str
    corpus: str  # in words
    pair: Literal["en-de", "en-fr"]
    values: Values  # the sections of a recipe but for the model
    by: int  # widths of Table 3 are the paper's divided by this
    layers_by: int
    steps: int  # of Table 3's base
    operations: float | None  # of Table 2's every training; None: each system has the steps of its preset
    minutes: float | None  # bound of each of Table 2's trainings
    dropout: Mapping[str, float] = {}  # of the systems that have another one on this corpus

    def recipe(self, model: Values, training: Values, place: str) -> Recipe:
        """The recipe of a model at this scale."""
        values = merged(self.values, {"training": training})
        return from_values({**values, "model": model}, place=place)

    def corpus_named(self, name: str) -> CorpusSpec:
        """`validation`, or the test set."""
        data = self.recipe({}, {}, self.name).data
        found = data.validation if name == "validation" else data.test["test"]
        assert found is not None
        return found


def scale(name: ScaleName) -> Scale:
    """The scale of that name; the small one is Multi30k where `TRANSDUCE_DATA` has it, else the embedded corpus."""
    match name:
        case "small":
            return _small()
        case "paper":
            corpus, subwords = "WMT 2014 en–de, 4.5 million pairs, 37,000 subwords", {"kind": "bpe", "size": 37_000}
            return _paper(name, "en-de", corpus, subwords)
        case "paper-en-fr":
            corpus, subwords = (
                "WMT 2014 en–fr, 40.8 million pairs, 32,000 word-pieces",
                {"kind": "wordpiece", "size": 32_000},
            )
            return _paper(name, "en-fr", corpus, subwords)._replace(dropout={"big": 0.1})  # section 6.1


def _files(folder: Path, stem: str, language: str = "de") -> Values:
    """Both sides of a corpus."""
    return {"source": str(folder / f"{stem}.en"), "target": str(folder / f"{stem}.{language}")}


def _small() -> Scale:
    """A laptop's."""
    folder = Path(os.environ.get("TRANSDUCE_DATA", "")).resolve() / "multi30k"
    real = "TRANSDUCE_DATA" in os.environ and folder.is_dir()
    data: Values = {"source_language": "en", "target_language": "de"}
    if real:
        data |= {"train": _files(folder, "train"), "validation": _files(folder, "val")}
        data |= {"test": {"test": _files(folder, "test_2016_flickr")}}
    else:
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
        corpus=f"{'Multi30k en–de, 29,000 pairs' if real else 'the embedded corpus, 40,000 pairs'}, 4,000 subwords",
        values={"data": data, "subwords": {"kind": "bpe", "size": 4000}, "training": training},
        by=4,
        layers_by=2,
        steps=1200,
        operations=1.5e13,
        minutes=15.0,
    )


def _paper(name: ScaleName, pair: Literal["en-de", "en-fr"], corpus: str, subwords: Values) -> Scale:
    """The paper's sizes on a corpus of WMT 2014, in the folder that `TRANSDUCE_DATA` names."""
    place, language = f"wmt14-{pair}", pair[-2:]
    if "TRANSDUCE_DATA" not in os.environ:
        raise ValueError(f"--scale {name}: set TRANSDUCE_DATA to the folder that has {place}/")
    folder = Path(os.environ["TRANSDUCE_DATA"]).resolve() / place
    if not folder.is_dir():
        raise ValueError(f"--scale {name}: there is no {folder}; recipes/{place}-base.yaml says what it holds")
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
        by=1,
        layers_by=1,
        steps=100_000,
        operations=None,
        minutes=None,
    )
