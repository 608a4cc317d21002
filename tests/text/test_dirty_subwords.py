"""Subwords learned from any text and applied to any text; damaged and edited tokenizer files."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transduce.settings import validated
from transduce.text.bpe_dropout import hash_numbers
from transduce.text.byte_level import END
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords

SPECS = [Bpe(size=300), WordPiece(size=560)]
TEXT = st.text(
    st.one_of(
        st.sampled_from("aab  ⟨s⟩‿▁Ġ\0\n\r\t\u0085\u2028\ufeff\u202e\u0301"), st.characters(exclude_categories=["Cs"])
    ),
    max_size=40,
)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
@given(lines=st.lists(TEXT, max_size=4), other=TEXT)
@settings(max_examples=10)
@example(lines=[], other="")
@example(lines=["a" * 5000], other="a" * 321)
@example(lines=["⟨s⟩ ⟨/s⟩ ⟨pad⟩ ‿‿‿"] * 3, other="⟨/s⟩‿")
@example(lines=[" "] * 9, other="  ")
def test_subwords_learnt_from_any_lines_give_back_any_text(spec: Bpe | WordPiece, lines: list[str], other: str) -> None:
    subwords = Subwords.parse(Subwords.learn(lines, spec).as_json().encode(), place="here")
    assert subwords.size <= spec.size
    ids = subwords.encode([*lines, other])
    assert subwords.decode(ids) == [*lines, other]
    assert all(END < token < subwords.size for sentence in ids for token in sentence)


@given(text=TEXT)
def test_dropout_gives_back_any_text_and_probability_zero_the_plain_encoding(text: str) -> None:
    subwords = Subwords.parse(content("bpe"), place="here")
    keys = hash_numbers(np.arange(2))
    assert subwords.decode(subwords.encode_with_dropout([text, "x"], 0.5, keys)) == [text, "x"]
    assert [ids.tolist() for ids in subwords.encode_with_dropout([text, "x"], 0.0, keys)] == subwords.encode(
        [text, "x"]
    )


@cache
def content(kind: str) -> bytes:
    spec = Bpe(size=300) if kind == "bpe" else WordPiece(size=560)
    return Subwords.learn(["a man and a woman, a dog and two cats"] * 3, spec).as_json().encode()


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("bpe", "model.dropout", 0.5),
        ("bpe", "model.ignore_merges", True),
        ("bpe", "truncation", {"direction": "Right", "max_length": 50_000, "strategy": "LongestFirst", "stride": 0}),
        ("bpe", "padding", {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 70}
         | {"pad_type_id": 0, "pad_token": "x"}),
        ("bpe", "normalizer", None),
        ("wordpiece", "model.max_input_chars_per_word", 519),
        ("wordpiece", "pre_tokenizer.pretokenizers", []),
    ],
)  # fmt: skip
def test_a_file_with_other_rules_is_refused(kind: str, path: str, value: object) -> None:
    """Most of these files would encode the probe text without loss, and other texts truncated, padded or at random."""
    values = json.loads(content(kind))
    *sections, key = path.split(".")
    section = values
    for name in sections:
        section = section[name]
    assert section[key] != value
    section[key] = value
    with pytest.raises(ValueError, match="file holds no subwords of transduce, or is damaged"):
        Subwords.parse(json.dumps(values).encode(), place="file")


@given(
    place=st.floats(0, 1, exclude_max=True),
    change=st.sampled_from([b"", b"\0", b"\xff", b"9", b'"', b"]}", b"[" * 300]),
)
def test_a_damaged_file_is_refused_or_loses_nothing(place: float, change: bytes) -> None:
    whole = content("bpe")
    at = int(place * len(whole))
    try:
        subwords = Subwords.parse(whole[:at] + change + whole[at + 1 :], place="file")
    except ValueError as error:
        assert "file holds no subwords" in str(error)  # noqa: PT017 - either is right
        return
    lines = ["a man and\ttwo dogs ", "\ufeff字\0"]
    assert subwords.decode(subwords.encode(lines)) == lines


def test_a_vocabulary_that_exceeds_the_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`size` is 1000000000: write at most 1000000"):
        validated(Bpe, {"size": 10**9}, place="recipe")
