"""A split as files: sentences, translations, trees and alignments, line by line."""

from collections.abc import Callable
from pathlib import Path

from transduce.embedded.realise import Example
from transduce.embedded.splits import split

FILES: dict[str, Callable[[Example], str]] = {
    "source.en": lambda example: example.source,
    "target.de": lambda example: example.target,
    "trees.en": lambda example: example.tree,
    "alignments": lambda example: " ".join(f"{source}-{target}" for source, target in example.alignment),
}


def write(name: str, directory: Path, *, seed: int = 1, count: int | None = None) -> list[Path]:
    """Writes a split into a directory, which is made if need be, and says which files it wrote.

    `source.en` and `target.de` hold a sentence a line, `trees.en` a tree, `alignments` pairs of token positions as
    `0-0 1-2`, counted in the tokens of the trees and of the German with its punctuation apart.
    """
    examples = split(name, seed=seed, count=count)
    directory.mkdir(parents=True, exist_ok=True)
    for file, line in FILES.items():
        text = "".join(line(example) + "\n" for example in examples)
        (directory / file).write_text(text, encoding="utf-8", newline="\n")
    return [directory / file for file in FILES]
