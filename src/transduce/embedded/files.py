"""Writes a split to files: sentences, translations, trees and alignments, line by line."""

from collections.abc import Callable
from pathlib import Path

from transduce.embedded.realise import Example
from transduce.embedded.splits import split
from transduce.storage.atomic import atomic_write_text

LINES: dict[str, Callable[[Example], str]] = {
    "source.en": lambda example: example.source,
    "target.de": lambda example: example.target,
    "trees.en": lambda example: example.tree,
    "alignments": lambda example: " ".join(f"{source}-{target}" for source, target in example.alignment),
}

FILES = tuple(LINES)


def write(name: str, directory: Path, *, seed: int = 1, count: int | None = None) -> list[Path]:
    """Writes a split to a directory, which is created if it is missing, and returns the paths of the files.

    A line of `source.en` and `target.de` is a sentence, of `trees.en` a tree, of `alignments` pairs of token positions
    such as `0-0 1-2`, counted in the leaves of the tree and in the German with separate punctuation.
    """
    examples = split(name, seed=seed, count=count)
    directory.mkdir(parents=True, exist_ok=True)
    for file, line in LINES.items():
        text = "".join(line(example) + "\n" for example in examples)
        atomic_write_text(directory / file, text)
    return [directory / file for file in LINES]
