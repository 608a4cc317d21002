"""Growth of a vocabulary: the old merges come first, so that new subwords only join the old ones."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transduce.text.byte_level import END
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.vocabulary_growth import check_can_grow, grow_subwords, spellings

OLD_LINES = ["A man and a woman are walking down the street.", "Ein Mann und eine Frau gehen die Straße hinunter."] * 3
NEW_LINES = [
    "Your order was shipped yesterday.",
    "The order was shipped.",
    "Ihre Bestellung wurde gestern geliefert.",
] * 4
COUNT = 17


@pytest.fixture(scope="module")
def old() -> Subwords:
    return Subwords.learn(OLD_LINES, Bpe(size=300))


@pytest.fixture(scope="module")
def grown(old: Subwords) -> Subwords:
    return grow_subwords(old, NEW_LINES, COUNT)


def model_of(subwords: Subwords) -> dict:
    return json.loads(subwords.as_json())["model"]


def expanded(tokens: list[int], subwords: Subwords, size: int) -> list[int]:
    spelled = spellings(subwords, size)
    return [old for token in tokens for old in ([token] if token < size else spelled[token - size])]


def test_old_merges_and_ids_stay_first(old: Subwords, grown: Subwords) -> None:
    before, after = model_of(old), model_of(grown)
    assert after["merges"][: len(before["merges"])] == before["merges"]
    assert before["vocab"].items() <= after["vocab"].items()
    assert grown.size == old.size + COUNT
    assert sorted(after["vocab"].values()) == list(range(grown.size))


def test_the_first_new_merge_joins_the_most_frequent_pair_of_the_old_segmentation(old: Subwords) -> None:
    pairs: Counter[tuple[str, ...]] = Counter()
    for line in NEW_LINES:
        subwords = old.readable_subwords(old.encode([line])[0])
        pairs.update(pair for pair in pairwise(subwords) if not pair[1].startswith("▁") and pair[1] != ".")
    merge = model_of(grow_subwords(old, NEW_LINES, 1))["merges"][-1]
    assert pairs["".join(merge[:1]).replace("Ġ", "▁"), merge[1]] == max(pairs.values())


@given(text=st.lists(st.sampled_from([*"orde shipt wasIB.ß", "order", "Bestellung", "Straße"])).map("".join))
@example("The order was shipped on the street, orders! Bestellungen")
def test_new_subwords_only_join_old_ones(old: Subwords, grown: Subwords, text: str) -> None:
    (before,), (after,) = old.encode([text]), grown.encode([text])
    assert expanded(after, grown, old.size) == before
    assert grown.decode([after]) == [text]
    new = set(after) - set(range(old.size))
    assert new or after == before


def test_text_of_the_new_kind_has_fewer_subwords(old: Subwords, grown: Subwords) -> None:
    before, after = (sum(map(len, side.encode(NEW_LINES))) for side in (old, grown))
    assert after < 0.7 * before
    assert grown.encode(OLD_LINES[:1]) == old.encode(OLD_LINES[:1])


def test_spellings_are_of_old_tokens_alone(old: Subwords, grown: Subwords) -> None:
    spelled = spellings(grown, old.size)
    assert len(spelled) == COUNT
    assert all(len(tokens) > 1 and END < min(tokens) <= max(tokens) < old.size for tokens in spelled)
    texts = old.readable_subwords(range(old.size))
    new = grown.readable_subwords(range(old.size, grown.size))
    assert ["".join(texts[token] for token in tokens) for tokens in spelled] == new


def test_a_grown_vocabulary_is_saved_read_and_grows_again(old: Subwords, grown: Subwords, tmp_path: Path) -> None:
    grown.save(tmp_path / "tokenizer.json")
    loaded = Subwords.load(tmp_path / "tokenizer.json")
    assert loaded.encode(NEW_LINES) == grown.encode(NEW_LINES)
    again = grow_subwords(loaded, ["quite other words, quite other zebras"] * 3, 5)
    assert again.size == grown.size + 5
    assert model_of(again)["merges"][: len(model_of(grown)["merges"])] == model_of(grown)["merges"]


def test_the_same_lines_give_the_same_subwords(old: Subwords, grown: Subwords) -> None:
    assert grow_subwords(old, NEW_LINES, COUNT).as_json() == grown.as_json()


def test_text_without_repetitions_adds_nothing(old: Subwords) -> None:
    assert grow_subwords(old, ["zq"], 5).as_json() == old.as_json()
    assert grow_subwords(old, [], 5).size == old.size


def test_other_vocabularies_are_refused() -> None:
    check_can_grow(Subwords.learn([], Bpe(size=259)), "source")
    for other in (Subwords.learn([], WordPiece(size=515)), SymbolVocabulary(["(S", ")S"])):
        with pytest.raises(ValueError, match="--grow-vocabulary: the target subwords of --from are no BPE"):
            check_can_grow(other, "target")
