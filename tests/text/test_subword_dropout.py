"""BPE-dropout: probability 0 gives BPE; the encoding depends on text and key alone; decoding gives back the text."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.bpe_dropout import ByteSymbols, Merges, hash_numbers
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords

LINES = [
    "A man and a woman are walking down the street, holding hands.",
    "Two dogs aren't playing in the snow; l'homme n'y croit pas.",
    "Ein junger Mann im grünen Hemd hält eine Gitarre …… und “so”",
    "Два мальчика играют в снегу…… да",
] * 3
KEYS = hash_numbers(np.arange(len(LINES)))


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords.learn(LINES, Bpe(size=450))


@given(text=st.text(st.sampled_from("ab d'ué…да.1"), max_size=40))
def test_probability_zero_gives_the_encoding_of_the_library(subwords: Subwords, text: str) -> None:
    lines = [text, *LINES, text[::-1]]
    encoded = subwords.encode_with_dropout(lines, 0.0, hash_numbers(np.arange(len(lines))))
    assert [ids.tolist() for ids in encoded] == subwords.encode(lines)


def test_words_are_never_merged_with_one_another() -> None:
    # Inside a word, b and ' are merged; at the end of "b'" they are two words.
    subwords = Subwords.learn(["b'c b'd b'e"] * 3, Bpe(size=262))
    assert "b'" in subwords.readable_subwords(range(259, subwords.size))
    (ids,) = subwords.encode_with_dropout(["b' b"], 0.0, KEYS[:1])
    assert subwords.readable_subwords(ids) == ["▁", "b", "'", "▁", "b"]


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.999999])
def test_decoding_gives_back_the_text(subwords: Subwords, probability: float) -> None:
    assert subwords.decode(subwords.encode_with_dropout(LINES, probability, KEYS)) == LINES


def test_dropping_every_merge_leaves_bytes(subwords: Subwords) -> None:
    (ids,) = subwords.encode_with_dropout(["ab ü"], 1 - 1e-12, KEYS[:1])
    assert subwords.readable_subwords(ids) == ["▁", "a", "b", "▁", "\\xc3", "\\xbc"]


def test_an_encoding_depends_on_the_key_and_not_on_the_batch(subwords: Subwords) -> None:
    batch = subwords.encode_with_dropout(LINES, 0.3, KEYS)
    single = [subwords.encode_with_dropout([line], 0.3, KEYS[i : i + 1])[0] for i, line in enumerate(LINES)]
    assert [ids.tolist() for ids in batch] == [ids.tolist() for ids in single]
    other_keys = subwords.encode_with_dropout(LINES, 0.3, hash_numbers(KEYS))
    assert all(left.tolist() != right.tolist() for left, right in zip(batch, other_keys))
    assert batch[0].tolist() != batch[4].tolist()  # the same line under another key


def test_merges_are_dropped_with_the_given_probability() -> None:
    # There is one merge, so that every word is a single trial.
    subwords = Subwords.learn(["a a a"], Bpe(size=260))
    trials = 20_000
    (ids,) = subwords.encode_with_dropout([" ".join("a" * trials)], 0.3, KEYS[:1])
    assert (len(ids) / trials - 1) == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / trials) ** 0.5)


def test_wordpiece_has_no_merges_to_drop() -> None:
    subwords = Subwords.learn(LINES, WordPiece(size=600))
    with pytest.raises(ValueError, match=r"has no merges to drop: set subwords\.dropout: 0"):
        subwords.encode_with_dropout(LINES, 0.1, KEYS)


def test_merging_agrees_with_subword_nmt() -> None:
    folder = Path(os.environ.get("TRANSDUCE_DATA", "")) / "bpe-reference"
    if not (folder / "bpe.ref").exists():
        pytest.skip("TRANSDUCE_DATA/bpe-reference is not there")
    # Words of subword-nmt end in a mark, ours begin with a space; the test compares how merges are applied.
    table = [line.split(" ") for line in (folder / "bpe.ref").read_text("utf-8").split("\n")[1:] if line]
    words = (folder / "corpus.en").read_text("utf-8").split()
    letters = [[*word[:-1], word[-1] + "</w>"] for word in words]
    ids: dict[str, int] = {}
    for symbol in [letter for word in letters for letter in word] + [side for merge in table for side in merge]:
        ids.setdefault(symbol, len(ids))
    for left, right in table:
        ids.setdefault(left + right, len(ids))
    merges = Merges([(ids[left], ids[right], ids[left + right]) for left, right in table])
    flat = np.array([ids[letter] for word in letters for letter in word])
    number = np.repeat(np.arange(len(words)), [len(word) for word in letters])
    place = np.arange(len(flat))
    merged = merges.apply(ByteSymbols(flat.copy(), number, hash_numbers(place), place, place), 0.0)
    symbols = {number: symbol for symbol, number in ids.items()}
    ours = [symbols[merged_id].removesuffix("</w>") for merged_id in merged[merged >= 0].tolist()]
    theirs = (folder / "corpus.bpe.ref.en").read_text("utf-8").split()
    assert ours == [subword.removesuffix("@@") for subword in theirs]
