"""The splits: which sentences are for training, validation and test, and which only `novel` has."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from random import Random
from zlib import crc32

from transduce.embedded.grammar.pairs import Pairs, pairs_in
from transduce.embedded.grammar.sentences import sentence
from transduce.embedded.realise import Example, example, source

GRAMMAR = 2  # counts the times that rules or tables have changed what is drawn
SPLITS = {"train": 40_000, "validation": 1_000, "test": 1_000, "novel": 1_000}
COMMON, HELD_OUT, EVERY = Pairs("common"), Pairs("held out"), Pairs("every")


def split(name: str, *, seed: int = 1, count: int | None = None) -> list[Example]:
    """The first `count` examples of a split (its whole size by default), no two alike in English.

    Which split a sentence may stand in is decided by the sentence, so the splits of all seeds and sizes are
    disjoint. Those of `novel` have verb–object and adjective–noun pairs that no other split has, and no others.
    `ValueError` for an unknown split or a count below 1.
    """
    if name not in SPLITS:
        raise ValueError(f"there is no split `{name}` of the embedded corpus; choose {', '.join(SPLITS)}")
    if count is not None and count < 1:
        raise ValueError(f"count is {count}; ask for at least 1 sentence")
    return list(_made(name, seed, SPLITS[name] if count is None else count))


@lru_cache(maxsize=4)
def _made(name: str, seed: int, count: int) -> tuple[Example, ...]:
    """The examples, kept for whoever asks again: making forty thousand takes seconds."""
    return tuple(islice(_unlike(name, seed), count))


def count_derivations() -> int:
    """How many derivations the grammar has, counted rule by rule."""
    return sentence(EVERY).count


def _unlike(name: str, seed: int) -> Iterator[Example]:
    """An endless stream of examples that belong to a split, each English sentence once."""
    draw = Random(f"{name} {seed}").random
    seen: set[str] = set()
    rule = sentence(HELD_OUT if name == "novel" else COMMON)
    while True:
        said = rule.sample(draw)
        if name == "novel" and not any(pairs_in(said)):
            continue
        english = source(said)
        if english.line not in seen and name in ("novel", _home(english.line)):
            seen.add(english.line)
            yield example(said, english)


def _home(line: str) -> str:
    """The split that a sentence of common pairs belongs to: a tenth each for validation and test."""
    return {0: "validation", 1: "test"}.get(crc32(line.encode()) % 10, "train")
