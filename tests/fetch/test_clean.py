"""Cleaning: what is kept, what is mended, what is dropped and counted."""

import pytest

from transduce.fetch.catalogue import Part
from transduce.fetch.clean import BREAKS, Account, cleaned

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


def test_a_training_text_loses_what_cannot_be_trained_on_and_says_so():
    account = Account()
    assert list(cleaned(ROWS, part(), account)) == [["A dog.", "Ein Hund."], ["a b c d", " e "]]
    assert account.as_dictionary() == {
        "read": 5,
        "kept": 2,
        "dropped": {"with an empty side": 2, "with a side that is no UTF-8": 1},
        "mended": 1,
    }
    assert str(account) == (
        "2 pairs kept, 2 dropped with an empty side, 1 dropped with a side that is no UTF-8, "
        "line breaks inside of 1 made spaces"
    )


def test_a_published_set_loses_nothing():
    rows = ROWS[:3]
    assert len(list(cleaned(rows, part(3), Account()))) == 3


@pytest.mark.parametrize(("pairs", "message"), [(2, "x has 3 pairs where 2 are expected"), (4, "x has 3 pairs")])
def test_a_published_set_of_another_size_is_another_text(pairs, message):
    with pytest.raises(ValueError, match=message):
        list(cleaned(ROWS[:3], part(pairs), Account()))


def test_a_published_set_that_is_no_text_is_refused():
    with pytest.raises(ValueError, match="x: line 4 is no UTF-8"):
        list(cleaned(ROWS, part(5), Account()))


def test_every_character_that_python_takes_for_a_line_break_becomes_a_space():
    breaks = [character for character in map(chr, range(0x110000)) if len(f"a{character}b".splitlines()) == 2]
    assert all(BREAKS.fullmatch(character) for character in breaks)
    assert len(breaks) == 10
