"""Sentences, tags and placeholders of units, whatever the format."""

import io
from base64 import b64encode

import pytest
from fake_translator import result, reverse, reversing, same, words_of

from transduce.documents.document import ClosingTag, Content, InlineCode, OpeningTag, Unit
from transduce.documents.sentence_splitter import SentenceSplitter
from transduce.documents.sentence_translator import SentenceTranslator, codes_of, translate_units
from transduce.text.sentence_pieces import SentencePieceContent, SentencePieces

A, B, C = OpeningTag(1), ClosingTag(1), InlineCode(2)


def translated(*content: object, wraps: bool = False, translator: SentenceTranslator | None = None) -> Content:
    units = [Unit(content, wraps)]  # type: ignore[arg-type]
    return translate_units(units, translator or reversing()).contents[0]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (("Hello ", A, "big", B, " world."), ("WORLD ", A, "BIG", B, " HELLO.")),
        (("Click ", A, "here", B, ", now."), ("NOW ", A, "HERE", B, ", CLICK.")),
        ((A, "All of it. And more.", B), (A, "IT OF ALL. MORE AND.", B)),
        (("One", InlineCode(1, is_break=True), C, "two"), ("ONE", InlineCode(1, is_break=True), C, "TWO")),
        (("One ", A, "two. Three", B, " four."), ("ONE ", A, "TWO. THREE", B, " FOUR.")),
        (("Hello ", C, "world."), (C, "WORLD HELLO.")),
        (("Press ", C, "."), ("PRESS ", C, ".")),
        (("You have %d new {name}."), ("%d NEW HAVE YOU {name}.")),
        (("See https://a.b/c(d). It is it."), ("SEE https://a.b/c(d). IT IS IT.")),
        (("{0}"), ("{0}")),
        (("12 %"), ("12 %")),
        (("  lead  and trail "), ("  TRAIL AND LEAD ")),
        (("Line one\n\n%s\nline two\n"), ("ONE LINE\n\n%s\nTWO LINE\n")),
    ],
)
def test_units(content: object, expected: object) -> None:
    content = (content,) if isinstance(content, str) else content
    assert translated(*content) == ((expected,) if isinstance(expected, str) else expected)  # type: ignore[misc]


def test_a_line_end_is_a_space_where_the_unit_wraps() -> None:
    assert translated("soft\n  wrapped text", wraps=True) == ("TEXT WRAPPED SOFT",)
    assert translated("hard\nline") == ("HARD\nLINE",)


def test_all_sentences_of_a_document_are_translated_in_one_call_and_equal_ones_once() -> None:
    calls: list[list[str]] = []

    def translate(lines: list[str]) -> list:
        calls.append(lines)
        return [result(reverse(line)) for line in lines]

    translator = reversing()._replace(translate=translate)
    contents = translate_units(
        [Unit(("One cat. Two dogs.",)), Unit(("Two dogs.",)), Unit(("%s",))], translator
    ).contents
    assert calls == [["One cat.", "Two dogs."]]
    assert contents == [("CAT ONE. DOGS TWO.",), ("DOGS TWO.",), ("%s",)]


def test_alignments_are_computed_only_for_markers_between_words() -> None:
    aligned: list[str] = []

    def align(source: str, _: object) -> list[tuple[int, int]]:
        aligned.append(source)
        return [(n, n) for n in range(len(source.split()))]

    translator = same()._replace(align=align)
    translated(A, "All of it.", B, " {0} No ", A.__class__(3), "more", B.__class__(3), " now.", translator=translator)
    assert aligned == ["No more now."]


def test_without_alignments_tags_stand_at_their_relative_position_and_are_counted() -> None:
    units = [Unit(("a b ", A, "c", B, " d")), Unit((A, "a b", B))]
    outcome = translate_units(units, reversing(aligned=False))
    assert outcome.contents[0] == ("D C ", A, "B", B, " A")
    assert outcome.placed_by_position == 1


def test_a_pair_stays_a_pair_when_nothing_is_aligned_to_it() -> None:
    translator = reversing()._replace(align=lambda source, best: [])
    assert translated("one ", A, "two", B, " three", translator=translator).count(A) == 1


def test_an_empty_translation_keeps_its_tags() -> None:
    translator = same()._replace(translate=lambda lines: [result("") for _ in lines])
    content = translated("one ", A, "two", B, C, " three", translator=translator)
    assert [item for item in content if not isinstance(item, str)] == [A, B, C]


@pytest.mark.parametrize("text", ["w " * 100, "w, " * 99, "w" * 500, "字" * 300])
def test_a_sentence_that_is_too_long_is_split_and_not_dropped(text: str) -> None:
    def count(lines: object) -> list[int]:
        return [len(line.encode()) // 2 for line in lines]  # type: ignore[attr-defined]

    splitter = SentenceSplitter("en", count, 40)
    spans = splitter.spans(text, wraps=False)
    assert "".join(text[start:end] for start, end in spans).replace(" ", "") == text.replace(" ", "")
    assert max(count([text[start:end] for start, end in spans])) <= 40


def test_no_space_between_sentences_of_japanese_and_one_after_it() -> None:
    japanese = same()._replace(target_language="ja")
    assert translated("One cat. Two dogs.", translator=japanese) == ("One cat.Two dogs.",)
    english = same()._replace(source_language="ja", target_language="en")
    assert translated("今日は。元気です。", translator=english) == ("今日は。 元気です。",)


def test_placeholders_are_not_in_the_text_that_a_model_reads() -> None:
    seen: list[str] = []
    translator = SentenceTranslator(
        lambda lines: [seen.append(line) or result(line) for line in lines], None, words_of, "en", "de", 40
    )
    translated("Hi {name}, see %(a)s and `x = 1`; mail a.b@c.de.", translator=translator)
    assert seen == ["Hi, see and; mail."]


BIG = OpeningTag(3), "BIG", ClosingTag(3)
CODED = [
    ((">>fra<< One cat. Two dogs.",), [">>fra<< One cat.", ">>fra<< Two dogs."], ("CAT ONE. DOGS TWO.",)),
    ((">>fra<< One.\n>>deu<< Two.",), [">>fra<< One.", ">>deu<< Two."], ("ONE.\nTWO.",)),
    (
        (A, " >>fra<<", B, " Hi ", OpeningTag(3), "big", ClosingTag(3), " one."),
        [">>fra<< Hi big one."],
        (A, " ", B, " ONE ", *BIG, " HI."),
    ),
    ((">>fra<<",), [], ()),
    ((">>xyz<< One.",), [">>xyz<< One."], ("ONE >>XYZ<<.",)),
]


@pytest.mark.parametrize(("content", "sources", "expected"), CODED)
def test_each_sentence_has_the_code_of_its_unit(content: Content, sources: list[str], expected: Content) -> None:
    seen: list[str] = []

    def translate(lines: list[str]) -> list:
        seen.extend(lines)
        return [result(reverse(line.removeprefix(">>fra<< ").removeprefix(">>deu<< "))) for line in lines]

    def align(source: str, best: object) -> list[tuple[int, int]]:
        words = len(source.split())  # the code is one of them
        return [(words - 1 - n, n) for n in range(words - 1)]

    translator = reversing()._replace(translate=translate, align=align, codes={">>fra<<", ">>deu<<"})
    (output,) = translate_units([Unit(content)], translator).contents
    assert seen == sources
    assert output == expected


def test_the_codes_of_an_imported_model_are_those_of_its_vocabulary() -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["one cat", "two dogs"]), model_writer=model, vocab_size=14, minloglevel=2
    )
    pieces = ("<unk>", ">>fra<<", ">>", "▁one")
    content = SentencePieceContent(unknown=3, subwords=pieces, model=b64encode(model.getvalue()).decode())
    assert codes_of(SentencePieces(content)) == {">>fra<<"}
