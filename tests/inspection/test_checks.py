"""Each check names the pairs with its fault and no others."""

import errno
from unittest.mock import Mock

import pytest

from transduce.embedded import split
from transduce.inspection.held_out import HeldOutText, text_key
from transduce.inspection.inspector import PairInspector
from transduce.inspection.languages import PairLanguages, load_language_identifier
from transduce.inspection.line_checks import Check

PAIRS = [(example.source, example.target) for example in split("train")][:300]


def faults(pairs: list[tuple[str, str]], checks: list[Check], **settings: object) -> dict[Check, list[int]]:
    inspector = PairInspector(checks, **settings)
    for pair in pairs:
        inspector.add(*pair)
    return {check: numbers.tolist() for check, numbers in inspector.finish().faults.items() if len(numbers)}


@pytest.mark.parametrize(
    ("check", "pair"),
    [
        (Check.EMPTY, ("A dog runs.", " \u3000")),
        (Check.LONG, ("A dog runs.", "Hund " * 301)),
        (Check.RATIO, ("A dog runs.", "Ein Hund läuft. " * 9)),
        (Check.COPY, ("A dog runs.", "A dog runs. ")),
        (Check.WRONG_SCRIPT, ("A dog runs.", "Собака бежит.")),
        (Check.WRONG_SCRIPT, ("A dog runs.", "كلب يركض بسرعة")),
        (Check.WRONG_SCRIPT, ("A dog runs.", "一只狗在公园里跑得很快")),
        (Check.MARKUP, ("A dog runs.", "<b>Ein Hund</b> läuft.")),
        (Check.MARKUP, ("A dog &amp; a cat.", "Ein Hund und eine Katze.")),
        (Check.MARKUP, ('<seg id="3">A dog</seg>', "Ein Hund.")),
        (Check.CONTROL, ("A dog runs.", "Ein Hund\x07 läuft.")),
        (Check.CONTROL, ("A dog runs.", "Ein Hund\u2028 läuft.")),
        (Check.MOJIBAKE, ("A dog runs.", "Ein Hund lÃ¤uft.")),
        (Check.MOJIBAKE, ("A dog runs.", "Ein Hund l\ufffduft.")),
        (Check.MOJIBAKE, ("It’s here.", "Itâ€™s hier.")),
        (Check.UNNORMALISED, ("A dog runs.", "Ein Hund la\u0308uft.")),
        (Check.UNNORMALISED, ("A dog runs.", "Ein\u200b Hund läuft.")),
        (Check.NUMBERS, ("In 1985 it ran.", "1958 lief es.")),
        (Check.NUMBERS, ("In 1985 and 1986.", "85 und 87.")),
        (Check.NUMBERS, ("It cost 12,000.", "Es kostete 120.")),
        (Check.NUMBERS, ("At 11 p.m. it ran.", "Um 22 Uhr lief es.")),
    ],
)
def test_a_check_names_the_pair_with_its_fault(check: Check, pair: tuple[str, str]) -> None:
    pairs = [*PAIRS[:57], pair, *PAIRS[57:]]
    assert faults(pairs, [check]) == {check: [58]}


@pytest.mark.parametrize(
    ("check", "pair"),
    [
        (Check.COPY, ("2019", "2019")),
        (Check.RATIO, ("Yes.", "Ja, natürlich.")),
        (Check.MARKUP, ("if a < b and c > d & e;", "wenn a<b und c>d & e;")),
        (Check.MOJIBAKE, ("São Paulo", "ÂNGELA Ü Ã")),
        (Check.NUMBERS, ("At 7:15 p.m. there were 1,200.", "Um 19.15 Uhr waren es 1 200.")),
        (Check.NUMBERS, ("12 men", "zwölf Männer")),
        (Check.NUMBERS, ("From 12,000 to 16,000 in the 1980s.", "12 bis 16 Tausend in den 80er Jahren.")),
        (Check.NUMBERS, ("500 thousand from 2010 to 2011.", "500.000 von 2010/11.")),
        (Check.NUMBERS, ("At 11 p.m. it ran.", "Um 23 Uhr lief es.")),
        (Check.UNNORMALISED, ("کتاب‌ها", "Bücher")),
    ],
)
def test_a_check_does_not_name_a_pair_that_is_right(check: Check, pair: tuple[str, str]) -> None:
    assert faults([*PAIRS, pair], [check]) == {}


def test_repetitions_are_duplicates_or_near_duplicates_or_have_several_targets() -> None:
    first, second, third = ("A dog.", "Ein Hund."), ("A cat.", "Eine Katze."), ("A cow.", "Eine Kuh.")
    pairs = [first, second, third, first, ("a CAT 3!", "eine katze"), (third[0], "Ein Rind."), ("", ""), ("", "")]
    checks = [Check.DUPLICATE, Check.NEAR_DUPLICATE, Check.SEVERAL_TARGETS]
    assert faults(pairs, checks) == {Check.DUPLICATE: [4], Check.NEAR_DUPLICATE: [5], Check.SEVERAL_TARGETS: [6]}
    inspector = PairInspector(checks)
    for pair in pairs:
        inspector.add(*pair)
    assert [numbers.tolist() for numbers in inspector.finish().first.values()] == [[1], [2], [3]]


def test_overlap_ignores_case_and_punctuation_and_counts_the_lines_of_the_set() -> None:
    held_out = HeldOutText("validation", ["A dog runs.", "a dog runs", "A bird.", " "])
    pairs = [("A cow.", "Eine Kuh."), ("“a DOG runs”", "Ein Hund läuft."), ("A dog runs!", "Der Hund läuft.")]
    assert faults(pairs, [Check.OVERLAP], held_out=[held_out]) == {Check.OVERLAP: [2, 3]}
    assert (held_out.lines, held_out.contained) == (3, 2)


def test_keys_keep_letters_of_every_script() -> None:
    assert text_key("Straße, 12!") == text_key("STRASSE") != text_key("Straten")
    assert text_key("狗。") != text_key("猫。")
    assert text_key("12 ") == text_key(" 12") != text_key("13")
    assert text_key("वह दिन था।") == text_key("वह दिन, था") != text_key("वह दान था।")
    assert text_key("มา") != text_key("ม้า")
    assert text_key("Ja ❤️!") == text_key("ja")


def test_text_that_is_no_utf8_repeats_nothing() -> None:
    inspector = PairInspector([Check.DUPLICATE, Check.NEAR_DUPLICATE, Check.SEVERAL_TARGETS])
    inspector.add("a \ufffd", "b", is_utf8=False)
    inspector.add("a \ufffd", "b")
    inspector.add("a \ufffd", "b")
    assert {check: list(numbers) for check, numbers in inspector.finish().faults.items()} == {
        Check.DUPLICATE: [3],
        Check.NEAR_DUPLICATE: [],
        Check.SEVERAL_TARGETS: [],
    }


def words(text: str) -> dict[str, float]:
    """An identifier for two languages: the number of frequent words, times ten."""
    frequent = {"en": {"the", "a", "is", "and"}, "de": {"der", "die", "das", "ein", "eine", "ist", "und"}, "xx": {"zz"}}
    return {code: 10.0 * sum(word in known for word in text.lower().split()) for code, known in frequent.items()}


def test_languages_are_judged_by_the_usual_ones() -> None:
    english, german = "the dog is here and a cat is there", "der hund ist da und das ist eine katze"
    pairs = [(english, german)] * 20 + [(german, english), (english, "zz " * 20), (english, "Kurz.")]
    checks = [Check.SWAPPED, Check.WRONG_LANGUAGE]
    found = faults(pairs, checks, languages=PairLanguages(words))
    assert found == {Check.SWAPPED: [21], Check.WRONG_LANGUAGE: [22]}
    assert faults([pair[::-1] for pair in pairs[:20]], checks, languages=PairLanguages(words, ("en", "de-AT"))) == {
        Check.SWAPPED: list(range(1, 21))
    }
    assert faults(pairs, checks) == {}


def test_the_identifier_of_the_extra_knows_its_languages() -> None:
    pytest.importorskip("py3langid")
    identify = load_language_identifier()
    assert identify is not None
    scores = identify("Die Katze sitzt auf dem Tisch und schläft seit Stunden.")
    assert max(scores, key=scores.__getitem__) == "de"
    wide = "".join(
        chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in "A man sleeps in the sun."
    )
    assert identify(f"{wide}\u200b") == identify("A man sleeps in the sun.")


def test_a_side_whose_language_is_unknown_is_not_judged() -> None:
    """Its lines may be too short to identify any language."""
    german = "der hund ist da und das ist eine katze"
    pairs = [("ab", german)] * 20 + [("the dog is here and a cat is there", german)]
    checks = [Check.SWAPPED, Check.WRONG_LANGUAGE]
    for codes in ((None, None), (None, "de")):
        assert faults(pairs, checks, languages=PairLanguages(words, codes)) == {}


def test_the_folder_without_room_for_the_model_of_languages_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("py3langid")
    load_language_identifier.cache_clear()
    monkeypatch.setattr("tempfile.tempdir", "/somewhere")
    monkeypatch.setattr("tempfile.TemporaryFile", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match="No space left on device: '/somewhere'"):
        load_language_identifier()
