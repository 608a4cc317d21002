"""Marks of terms: one id each, between the ids of the texts around them; text that spells a mark is never marked."""

import pytest

from transduce.text.subwords import Bpe, Subwords, WordPiece
from transduce.text.term_marks import (
    MarkedSpan,
    MarkedSubwords,
    encode_marked,
    has_term_marks,
    mark_terms,
    with_term_marks,
)
from transduce.text.tree_symbols import TreeSymbols

LINES = ["the dog has a return ticket.", "der Hund hat eine Rückfahrkarte."] * 3
SPANS = [MarkedSpan(4, 7, "Hund"), MarkedSpan(14, 27, "Rückfahrkarte")]


@pytest.fixture(scope="module", params=[Bpe(size=300), WordPiece(size=560)], ids=["bpe", "wordpiece"])
def subwords(request: pytest.FixtureRequest) -> Subwords:
    side = Subwords.learn(LINES, request.param).with_tags(["to:de"])
    return with_term_marks((side, side))[0]


def test_ids_of_a_marked_line_are_those_of_its_texts_and_marks(subwords: Subwords) -> None:
    line = mark_terms(LINES[0], SPANS)
    assert line is not None
    begin, end = (subwords.tags[name] for name in ("term:begin", "term:end"))
    texts = subwords.encode(["the", "Hund", "has a", "Rückfahrkarte", "."])
    expected = [*texts[0], begin, *texts[1], end, *texts[2], begin, *texts[3], end, *texts[4]]
    marked = MarkedSubwords.parse(subwords.as_json().encode(), place="here")
    assert encode_marked(subwords, [line]) == marked.encode([line]) == [expected]
    assert subwords.decode([expected]) == ["the Hund has a Rückfahrkarte ."]
    assert begin not in subwords.encode([line])[0]  # no text of users is encoded as a mark


def test_lines_without_marks_are_encoded_as_ever(subwords: Subwords) -> None:
    lines = [*LINES, "", " two  spaces ", "⟨term:"]
    plain = [line.strip(" ") for line in lines]
    assert encode_marked(subwords, plain) == subwords.encode(plain)
    assert encode_marked(subwords, [mark_terms("dog", [MarkedSpan(0, 3, "Hund")]) or ""]) == [
        [subwords.tags["term:begin"], *subwords.encode(["Hund"])[0], subwords.tags["term:end"]]
    ]


def test_text_that_spells_a_mark_is_not_marked() -> None:
    assert mark_terms("a ⟨term:end⟩ dog", [MarkedSpan(13, 16, "Hund")]) is None
    assert mark_terms("a dog", [MarkedSpan(2, 5, "⟨term:begin⟩")]) is None
    assert mark_terms("a dog", [MarkedSpan(2, 5, "⟨to:de⟩")]) == "a ⟨term:begin⟩⟨to:de⟩⟨term:end⟩"


def test_marks_are_added_once_to_a_vocabulary_that_both_sides_share(subwords: Subwords) -> None:
    once = with_term_marks((subwords, subwords))
    assert once[0] is once[1] is subwords
    assert list(subwords.tags) == ["to:de", "term:begin", "term:end"]
    assert has_term_marks(subwords)
    other = Subwords.learn(LINES, Bpe(size=290))
    assert not has_term_marks(other)
    symbols = TreeSymbols(["(S", ")S"])
    for sides in ((subwords, other), (symbols, symbols)):
        with pytest.raises(ValueError, match=r"leave `data\.terms` out"):
            with_term_marks(sides)
