"""Glossaries: reading, finding terms in lines, and their translations in outputs."""

from pathlib import Path

import pytest

from transduce.text.glossary import Glossary


def write(folder: Path, text: str) -> Path:
    path = folder / "terms.tsv"
    path.write_text(text, "utf-8")
    return path


def found(glossary: Glossary, line: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(line[one.start : one.end], one.targets) for one in glossary.find(line)]


def test_a_file_has_terms_alternatives_notes_and_names(tmp_path: Path) -> None:
    text = "dog\tHund\tanimal\ndog\tHunde\n\nEttore\nred dog\tHot Dog\r\nNew York\t\ta city\n"
    assert Glossary.read(write(tmp_path, text)).targets == {
        "dog": ("Hund", "Hunde"),
        "Ettore": ("Ettore",),
        "red dog": ("Hot Dog",),
        "New York": ("New York",),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog\tHund\n\tKatze\n", r"terms.tsv: line 2 is not a term: write source, tab, target"),
        ("a\tb\tc\td\n", r"terms.tsv: line 1 is not a term"),
        ("\n \n", r"terms.tsv has no term: write lines of source, tab and target"),
    ],
)
def test_a_file_that_is_no_glossary_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Glossary.read(write(tmp_path, text))


def test_terms_are_whole_words_and_the_longest_wins() -> None:
    glossary = Glossary({"dog": ("Hund",), "red dog": ("Hot Dog",), "(r)": ("(R)",), "IT": ("EDV",)})
    assert found(glossary, "Dogs, a dog, DOG and a red dog (r) hotdog dog's") == [
        ("dog", ("Hund",)),
        ("DOG", ("Hund",)),
        ("red dog", ("Hot Dog",)),
        ("(r)", ("(R)",)),
        ("dog", ("Hund",)),
    ]
    assert found(glossary, "it is IT") == [("IT", ("EDV",))]


def test_a_term_whose_capitals_differ_hides_no_shorter_term() -> None:
    glossary = Glossary({"Apple Pie": ("Apple Pie",), "apple": ("Apfel",)})
    assert found(glossary, "I eat apple pie.") == [("apple", ("Apfel",))]
    assert found(glossary, "an Apple Pie, an APPLE") == [("Apple Pie", ("Apple Pie",)), ("APPLE", ("Apfel",))]


def test_vowel_signs_belong_to_words() -> None:
    glossary = Glossary({"राम": ("Ram",), "कि": ("that",), "नदी": ("river",), "आ": ("a",)})
    found = [(one.start, one.end) for one in glossary.find("रामायण किताब नदी नदीकी राम।")]
    assert found == [(13, 16), (23, 26)]
    ram = Glossary({"Ram": ("राम",)})
    occurrences = ram.find("Ram")
    assert ram.missing("रामायण", occurrences) == occurrences
    assert ram.missing("राम है", occurrences) == []


def test_scripts_without_spaces_need_no_word_boundary() -> None:
    glossary = Glossary({"犬": ("dog",)})
    assert found(glossary, "黒い犬がいる") == [("犬", ("dog",))]
    assert glossary.is_spaced
    assert not Glossary({"dog": ("犬",)}).is_spaced


@pytest.mark.parametrize(
    ("output", "missing"),
    [
        ("Hund und Hunde", []),
        ("der Hund", ["dog"]),
        ("Hundeleine und Hund", ["dog"]),
        ("ein hund, Hund Hunde", []),
        ("", ["dog", "dog"]),
    ],
)
def test_each_occurrence_needs_a_translation_of_its_own(output: str, missing: list[str]) -> None:
    glossary, line = Glossary({"dog": ("Hund", "Hunde")}), "the dog sees a dog"
    assert [line[one.start : one.end] for one in glossary.missing(output, glossary.find(line))] == missing


def test_a_translation_may_begin_the_output_with_a_capital() -> None:
    glossary, line = Glossary({"quickly": ("rasch",)}), "quickly"
    assert glossary.missing("„Rasch“ ist es", glossary.find(line)) == []
    assert glossary.missing("Es ist Rasch", glossary.find(line)) != []


def test_a_longer_term_takes_its_words_before_a_shorter_one() -> None:
    glossary, line = Glossary({"dog": ("Hund",), "red dog": ("roter Hund",)}), "dog, red dog"
    assert [one.targets for one in glossary.missing("ein roter Hund", glossary.find(line))] == [("Hund",)]
