"""Normalisation: what cannot be seen changes no token of a source, a target keeps its white space, files say how."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from transduce.text.normalisation import has_text_to_translate, normalise, normalizer_rules
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import load_subwords, share_subwords, target_side

PLAIN = "A man in an orange hat, starring at something."
ODD = "ab Zé\u0301ｆＡ！\t\u00a0\u202f\u200b\u200c\u200d\ufeff\u00ad\u3000\u2028\x85\x1c\x07क\u094d👩漢字ｱ\u05d0"
ODD += "\u212b.,'’“"

UNSEEN = {
    "tab": PLAIN.replace(" ", "\t", 1),
    "double spaces": PLAIN.replace(" ", "  "),
    "outer spaces": f"  {PLAIN}\t ",
    "no-break spaces": PLAIN.replace(" ", "\u00a0"),
    "narrow no-break spaces": PLAIN.replace(" ", "\u202f"),
    "byte order mark": f"\ufeff{PLAIN}",
    "zero-width space": PLAIN.replace("man", "man\u200b"),
    "soft hyphens": PLAIN.replace("orange", "or\u00adange"),
    "direction marks": f"\u200e{PLAIN}\u200f",
    "joiner": PLAIN.replace("hat", "ha\u200dt"),
    "full width": PLAIN.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)}),
    "escape": PLAIN.replace("man", "\x1bman"),
}


@pytest.fixture(scope="module", params=["bpe", "wordpiece"])
def subwords(request) -> Subwords:
    lines = [PLAIN, "Ein Mann mit orangefarbenem Hut\u202f!"] * 20
    spec = Bpe(size=400) if request.param == "bpe" else WordPiece(size=600)
    return Subwords.learn(lines, spec, "source")


@pytest.mark.parametrize("name", UNSEEN)
def test_a_source_has_the_tokens_of_its_plain_form(subwords, name):
    assert UNSEEN[name] != PLAIN
    assert subwords.encode([UNSEEN[name]]) == subwords.encode([PLAIN])
    assert Tokenizer.from_str(subwords.as_json()).encode(UNSEEN[name]).ids == subwords.encode([PLAIN])[0]


def test_composed_and_decomposed_letters_are_one():
    assert normalise("Scho\u0308n", "source") == normalise("Scho\u0308n", "target") == "Schön"


@pytest.mark.parametrize("text", ["نمی\u200cخواهم", "\u0915\u094d\u200d\u0937", "👩\u200d👧", "“Yes” – ‘no’ — don’t…"])
def test_joiners_of_scripts_and_emoji_and_typographic_marks_stay(text):
    assert normalise(text, "source") == normalise(text, "target") == text


def test_a_target_keeps_its_white_space_and_loses_what_is_invisible(subwords):
    target = subwords.as_target
    text = "Quoi\u202f? «\u00a0Oui\u00a0»  ici"
    assert target.decode(target.encode([f" {text}\u200b\ufeff "])) == [text]
    assert subwords.decode(subwords.encode([text])) == ["Quoi ? « Oui » ici"]


@pytest.mark.parametrize("side", ["source", "target"])
@given(text=st.text(st.sampled_from(ODD), max_size=24))
def test_rules_change_nothing_a_second_time(side, text):
    once = normalise(text, side)
    assert normalise(once, side) == once
    for rule in normalizer_rules(side):
        assert rule.normalize_str(once) == once


@given(texts=st.lists(st.text(st.sampled_from(ODD), max_size=24), max_size=5))
def test_lines_together_have_the_tokens_of_each_alone(texts):
    subwords = Subwords.learn([PLAIN] * 4, Bpe(size=300), "source")
    library = Tokenizer.from_str(subwords.as_json())
    assert subwords.encode(texts) == [library.encode(text).ids for text in texts]


def test_a_shared_file_gives_both_sides(subwords, tmp_path):
    subwords.save(tmp_path / "tokenizer.json")
    source, target = load_subwords(tmp_path, shared=True)
    assert (source.side, target.side) == ("source", "target")
    assert share_subwords((source, target))
    assert target.as_json() == source.as_json() == (tmp_path / "tokenizer.json").read_text("utf-8")
    assert target_side(source) is target


def test_subwords_without_rules_encode_every_character(tmp_path):
    plain = Subwords.learn([PLAIN] * 4, Bpe(size=300))
    plain.save(tmp_path / "tokenizer.json")
    loaded = Subwords.load(tmp_path / "tokenizer.json")
    assert loaded.side is None
    for text in UNSEEN.values():
        assert loaded.decode(loaded.encode([text])) == [text]


def test_a_file_with_other_rules_is_refused(subwords, tmp_path):
    description = json.loads(subwords.as_json())
    description["normalizer"]["normalizers"].pop(2)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(description), "utf-8")
    with pytest.raises(ValueError, match="it splits text by other rules"):
        Subwords.load(path)


@pytest.mark.parametrize(
    ("line", "translated"),
    [
        ("", False), ("\u200b", False), ("---", False), ("12,5 %", False), ("👩", False), ("½", False),
        ("https://example.org/a", False), ("see www.example.org", True), ("max@example.org 3", False),
        ("12 kg", True), ("Ende.", True), ("漢字", True), ("...", False),
    ],
)  # fmt: skip
def test_a_line_with_a_letter_is_translated(line, translated):
    assert has_text_to_translate(line) == translated
