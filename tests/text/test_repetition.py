"""Loops in translations."""

import pytest

from transduce.text.repetition import is_loop


@pytest.mark.parametrize(
    ("output", "loops"),
    [
        ("auf einem grassy grassy grassy grassy Rasen", True),
        ("Machachachachachachter", True),
        ("ein Mann, ein Mann, ein Mann, ein Mann, dann", True),
        ("SSSSSSSSSS", True),
        ("ein Mann und ein Mann und ein Mann", False),
        ("zzzz 1000000", False),
        ("", False),
    ],
)
def test_a_piece_four_times_in_a_row_is_a_loop(output: str, loops: bool) -> None:
    assert is_loop(output, "a man") == loops


def test_what_the_source_repeats_is_none() -> None:
    assert not is_loop("ha ha ha ha ha ha", "ho ho ho ho ho ho")


def test_a_long_line_is_judged_in_linear_time() -> None:
    assert not is_loop("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ " * 3000, "")
