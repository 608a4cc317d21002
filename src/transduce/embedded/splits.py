"""Generates the training, validation and test splits of the embedded corpus, and a fourth split named `novel`.

All verb–object and adjective–noun pairs in `novel` are held out: no other split contains them.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from random import Random
from zlib import crc32

from transduce.embedded.grammar import sentence
from transduce.embedded.held_out_pairs import Pairs, pairs_in
from transduce.embedded.realise import Example, realise_english, realise_pair
from transduce.storage.atomic import atomic_write_text

GRAMMAR_VERSION = 2  # of the rules and tables; increment it whenever the generated sentences change
SPLITS = {"train": 40_000, "validation": 1_000, "test": 1_000, "novel": 1_000}
COMMON, HELD_OUT, EVERY = Pairs("common"), Pairs("held out"), Pairs("every")


def split(name: str, *, seed: int = 1, count: int | None = None) -> list[Example]:
    """Returns the first `count` examples of a split, or the whole split if `count` is None.

    No English sentence occurs twice in a split. A hash of each sentence assigns it to `train`, `validation` or `test`,
    so these splits are disjoint for all seeds and counts. The verb–object and adjective–noun pairs in `novel` do not
    occur in any other split.

    Raises ValueError if the split is unknown or `count` is less than 1.
    """
    if name not in SPLITS:
        raise ValueError(f"there is no split `{name}` of the embedded corpus; choose {', '.join(SPLITS)}")
    if count is not None and count < 1:
        raise ValueError(f"count is {count}; ask for at least 1 sentence")
    return list(_examples(name, seed, SPLITS[name] if count is None else count))


@lru_cache(maxsize=4)
def _examples(name: str, seed: int, count: int) -> tuple[Example, ...]:
    """Returns the first examples of a split, cached because it takes seconds to generate 40,000 of them."""
    return tuple(islice(_distinct_examples(name, seed), count))


def count_derivations() -> int:
    """Returns the number of derivations of the grammar."""
    return sentence(EVERY).count


def _distinct_examples(name: str, seed: int) -> Iterator[Example]:
    """Yields an endless stream of examples of a split, in which no English sentence occurs twice."""
    draw = Random(f"{name} {seed}").random
    seen: set[str] = set()
    rule = sentence(HELD_OUT if name == "novel" else COMMON)
    while True:
        derivation = rule.sample(draw)
        if name == "novel" and not any(pairs_in(derivation)):
            continue
        english = realise_english(derivation)
        if english.line not in seen and name in ("novel", _split_of(english.line)):
            seen.add(english.line)
            yield realise_pair(derivation, english)


def _split_of(line: str) -> str:
    """Returns the split to which a sentence without held-out pairs belongs.

    One tenth of these sentences goes to validation and one tenth to test.
    """
    return {0: "validation", 1: "test"}.get(crc32(line.encode()) % 10, "train")


LINES: dict[str, Callable[[Example], str]] = {
    "source.en": lambda example: example.source,
    "target.de": lambda example: example.target,
    "trees.en": lambda example: example.tree,
    "alignments": lambda example: " ".join(f"{source}-{target}" for source, target in example.alignment),
}

FILES = tuple(LINES)


def write(name: str, directory: Path, *, seed: int = 1, count: int | None = None) -> list[Path]:
    """Writes the files of a split to a directory, which is created if necessary, and returns their paths.

    Each line of `source.en` and `target.de` is a sentence, and each line of `trees.en` is a parse tree. Each line of
    `alignments` lists pairs such as `0-0 1-2`, where the first number is the position of a leaf in the tree and the
    second is the position of a German word. Punctuation marks count as words.
    """
    examples = split(name, seed=seed, count=count)
    directory.mkdir(parents=True, exist_ok=True)
    for file, line in LINES.items():
        text = "".join(line(example) + "\n" for example in examples)
        atomic_write_text(directory / file, text)
    return [directory / file for file in LINES]
