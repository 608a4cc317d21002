"""Treebanks of Table 4: the Wall Street Journal's sections at the paper's scale, or what is at hand at a small one."""

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from transduce.embedded import split
from transduce.paper.experiment_scales import ScaleName
from transduce.parsing.parser import split_treebank_words
from transduce.parsing.trees import parse_tree, words_of
from transduce.recipe.presets import Values
from transduce.text.lines import read_lines

SELF_TRAINED = 20_000  # raw sentences that a parser parses for another parser, at the small scale
LONGEST_RAW = 60  # words of such a sentence

Sentences = Callable[[], Iterator[list[str]]]


class Treebank(NamedTuple):
    """Trees for training and test, raw sentences for self-training, and the models of the scale."""

    corpus: str  # description
    train: list[Values]
    test: Values
    raw: Sentences | None  # None: there is no raw text
    raw_text: str  # description
    raw_weight: float  # uses of a parsed sentence for each use of a gold tree
    model: Values  # of the Transformers
    subwords: Values
    training: Values
    decoding: Values
    steps: int | None
    minutes: float | None  # None: the models are the paper's, and trained for steps


def treebank_of_scale(scale: ScaleName) -> Treebank:
    """Returns the treebank of a scale; the small one is CRAFT where `TRANSDUCE_DATA` has it, else the embedded trees.

    Raises ValueError where a treebank of the paper's scale is missing.
    """
    if scale == "paper":
        return _wall_street_journal()
    if scale != "small":
        raise ValueError(f"--scale {scale}: only Table 2 has that pair; use --scale paper")
    folder = Path(os.environ.get("TRANSDUCE_DATA", "")).resolve()
    has_craft = "TRANSDUCE_DATA" in os.environ and (folder / "craft-treebank").is_dir()
    return _craft(folder) if has_craft else _embedded()


def _craft(folder: Path) -> Treebank:
    trees, raw = folder / "craft-treebank", folder / "europarl-en-de" / "europarl.20k.en"
    return Treebank(
        corpus="CRAFT, 18,951 trees; test: its development set, sentences of four words and more, no headings",
        train=[{"trees": str(trees / "train")}],
        test={"trees": str(trees / "dev"), "shortest": 4, "without": ["HEADING", "TITLE", "CAPTION"]},
        raw=(lambda: _sentences(raw)) if raw.exists() else None,
        raw_text=f"{SELF_TRAINED:,} sentences of Europarl",
        raw_weight=0.5,
        model={"preset": "parser-small"},
        subwords={},
        training={"schedule": {"warmup": 300}, "average": 5, "save_every": 100, "steps": None},
        decoding={},
        steps=None,
        minutes=15.0,
    )


def _embedded() -> Treebank:
    size = {"d_model": 128, "encoder_layers": 3, "decoder_layers": 3, "feed_forward": {"d_ff": 256}, "dropout": 0.1}
    attention = {side: {"heads": 4, "d_k": 32, "d_v": 32} for side in ("mixer", "cross")}
    return Treebank(
        corpus="the embedded trees, 40,000",
        train=[{"embedded_trees": "train"}],
        test={"embedded_trees": "novel"},
        raw=lambda: (words_of(parse_tree(example.tree)) for example in split("train", seed=2, count=SELF_TRAINED)),
        raw_text=f"{SELF_TRAINED:,} other sentences of the embedded grammar",
        raw_weight=0.5,
        model={"preset": "parser-small", **size, **attention},
        subwords={"size": 2000},
        training={
            "batch_tokens": 2048,
            "schedule": {"warmup": 300, "peak": 3e-3},
            "average": 5,
            "save_every": 100,
            "steps": None,
        },
        decoding={"beam": 2},
        steps=None,
        minutes=5.0,
    )


def _wall_street_journal() -> Treebank:
    """Returns the sections of section 6.3: by custom 2 to 21 for training; 23 for test, settings were chosen on 22."""
    if "TRANSDUCE_DATA" not in os.environ:
        raise ValueError("--scale paper: set TRANSDUCE_DATA to the folder that has penn-treebank/wsj/02 to 23")
    folder = Path(os.environ["TRANSDUCE_DATA"]).resolve() / "penn-treebank"
    sections = [folder / "wsj" / f"{number:02}" for number in (*range(2, 22), 23)]
    if missing := [section for section in sections if not section.is_dir()]:
        raise ValueError(f"--scale paper: there is no {missing[0]}; Table 4 needs sections 02 to 21 and 23 of the WSJ")
    raw = folder / "raw.txt"
    return Treebank(
        corpus="Wall Street Journal, sections 2 to 21; test: section 23",
        train=[{"trees": str(section)} for section in sections[:-1]],
        test={"trees": str(sections[-1])},
        raw=(lambda: _sentences(raw, limit=None)) if raw.exists() else None,
        raw_text="the sentences of penn-treebank/raw.txt",
        raw_weight=1.0,
        model={"preset": "parser"},
        subwords={},
        training={},
        decoding={},
        steps=100_000,
        minutes=None,
    )


def _sentences(path: Path, limit: int | None = SELF_TRAINED) -> Iterator[list[str]]:
    """Yields the words of the first sentences of a text, as the Penn Treebank splits them; long ones are left out."""
    split_words = split_treebank_words()
    words = (split_words(line) for line in read_lines(str(path)))
    return islice((sentence for sentence in words if 1 <= len(sentence) <= LONGEST_RAW), limit)
