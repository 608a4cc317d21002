"""WordPiece: the pair of the highest likelihood is merged first, and old files are read."""

import math
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords
from transduce.text.wordpiece import learn_wordpiece

GOLDEN = Path(__file__).with_name("wordpiece-0.1.0.tokenizer.json")


GOLDEN_SUBWORDS = ["▁a", "▁", "man", "▁and", "▁a", "▁", "wo", "man"]

# Any of four letters follows any other about equally often, "th" a little more often; q and z occur together alone.
WORDS = {f"{first}{second}": 100 for first in "thab" for second in "thab"} | {"th": 110, "qz": 20}


def test_a_rare_pair_of_rare_letters_is_merged_before_a_frequent_pair_of_frequent_letters() -> None:
    assert max(WORDS, key=WORDS.__getitem__) == "th"
    assert learn_wordpiece(WORDS, "thabqz", "-", 100)[0] == "qz"


def test_bpe_and_wordpiece_merge_in_different_orders() -> None:
    lines = [word for word, count in WORDS.items() for _ in range(count)]

    def is_th_before_qz(spec: Bpe | WordPiece, first: int) -> bool:
        subwords = Subwords.learn(lines, spec)
        readable = [text.removeprefix("▁") for text in subwords.readable_subwords(range(first, subwords.size))]
        return readable.index("th") < readable.index("qz")

    assert is_th_before_qz(Bpe(size=320), 259)
    assert not is_th_before_qz(WordPiece(size=600), 515)


def naive_wordpiece(words: dict[str, int], mark: str, merges: int) -> list[str]:
    """Returns the subwords of WordPiece; counts all symbols and pairs anew for each merge."""
    symbols = {word: [word[0], *(mark + letter for letter in word[1:])] for word in words}
    existing = {letter for word in words for letter in word} | {mark + letter for word in words for letter in word}
    learned: list[str] = []
    while len(learned) < merges:
        singles: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for symbol in symbols[word]:
                singles[symbol] += count
            for pair in zip(symbols[word], symbols[word][1:]):
                pairs[pair] += count
        total = singles.total()
        gains = {
            pair: float(np.float32(count * math.log(count * total / (singles[pair[0]] * singles[pair[1]]))))
            for pair, count in pairs.items()
            if count >= 2
        }
        if not gains or max(gains.values()) <= 0.0:
            break
        best = min(gains, key=lambda pair: (-gains[pair], -pairs[pair], pair))
        for word, parts in symbols.items():
            merged: list[str] = []
            while parts:
                size = 2 if tuple(parts[:2]) == best else 1
                merged.append(parts[0] + "".join(part.removeprefix(mark) for part in parts[1:size]))
                parts = parts[size:]
            symbols[word] = merged
        text = best[0] + best[1].removeprefix(mark)
        if text not in existing:
            existing.add(text)
            learned.append(text)
    return learned


@pytest.mark.parametrize("seed", range(12))
def test_merges_are_those_of_a_naive_implementation(seed: int) -> None:
    random = Random(seed)
    words = {
        "".join(random.choices("abcde", weights=[9, 5, 3, 2, 1], k=random.randint(1, 9))): random.randint(1, 50)
        for _ in range(60)
    }
    expected = naive_wordpiece(words, "-", 80)
    assert len(expected) > 50
    assert learn_wordpiece(words, "abcde", "-", 80) == expected


def test_a_file_of_version_0_1_is_read() -> None:
    subwords = Subwords.load(GOLDEN)
    assert subwords.readable_subwords(subwords.encode(["a man and a woman"])[0]) == GOLDEN_SUBWORDS
