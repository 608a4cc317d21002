"""Cleaning: which pairs are kept, mended and dropped."""

import pytest

from transduce.fetch.catalogue import Part
from transduce.fetch.corpus_folder import BREAKS, CleaningCounts, clean

PART = {"name": "x", "files": {"en": "x.en", "de": "x.de"}, "sections": [{"name": "x", "choices": [{}]}]}
ROWS = [
    (b"A dog.", b"Ein Hund."),
    (b"", b"nur deutsch"),
    (b"only English", b" \xc2\xa0 "),
    (b"caf\xe9", b"Kaffee"),
    ("a\u2028b\x85c\rd".encode(), b" e "),
]


def part(pairs=None):
    return Part.model_validate({**PART, "pairs": pairs}, strict=False)


def test_unusable_pairs_of_a_training_text_are_dropped_and_counted():
    counts = CleaningCounts()
    assert list(clean(ROWS, part(), counts)) == [["A dog.", "Ein Hund."], ["a b c d", " e "]]
    assert counts.as_dictionary() == {
        "read": 5,
        "kept": 2,
        "dropped": {"with an empty side": 2, "with a side that is not UTF-8": 1},
        "mended": 1,
    }
    assert str(counts) == (
        "2 pairs kept, 2 dropped with an empty side, 1 dropped with a side that is not UTF-8, "
        "line breaks replaced by spaces in 1"
    )


def test_no_pair_of_a_published_set_is_dropped():
    rows = ROWS[:3]
    assert len(list(clean(rows, part(3), CleaningCounts()))) == 3


@pytest.mark.parametrize(("pairs", "message"), [(2, "x has 3 pairs where 2 are expected"), (4, "x has 3 pairs")])
def test_a_published_set_of_wrong_size_raises(pairs, message):
    with pytest.raises(ValueError, match=message):
        list(clean(ROWS[:3], part(pairs), CleaningCounts()))


def test_a_published_set_that_is_not_utf8_raises():
    with pytest.raises(ValueError, match="x: line 4 is not UTF-8"):
        list(clean(ROWS, part(5), CleaningCounts()))


def test_every_line_break_of_python_is_replaced():
    breaks = [character for character in map(chr, range(0x110000)) if len(f"a{character}b".splitlines()) == 2]
    assert all(BREAKS.fullmatch(character) for character in breaks)
    assert len(breaks) == 10
