"""Readers: plain and gzipped files, line ends, errors for files of unequal length, entries of a recipe."""

import gzip
import re
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import transduce.embedded
from transduce.corpus.corpus_kinds import Embedded, Files, Tsv
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.misalignment import _features
from transduce.corpus.readers import read_pairs
from transduce.settings import validated


def written(path: Path, content: bytes, *, zipped: bool = False) -> str:
    path.write_bytes(gzip.compress(content) if zipped else content)
    return str(path)


def files(folder: Path, source: bytes, target: bytes) -> Files:
    return Files(source=written(folder / "a.en", source), target=written(folder / "a.de", target))


@pytest.mark.parametrize("zipped", [False, True])
def test_two_files(tmp_path: Path, zipped: bool) -> None:
    # Names do not say whether a file is compressed.
    source = written(tmp_path / ("plain" if zipped else "x.gz"), b"one\ntwo\nthree\n", zipped=zipped)
    target = written(tmp_path / "target", "eins\nzwei\nüber drei".encode())
    assert list(read_pairs(Files(source=source, target=target))) == [
        ("one", "eins"),
        ("two", "zwei"),
        ("three", "über drei"),
    ]


@pytest.mark.parametrize("zipped", [False, True])
def test_tab_separated(tmp_path: Path, zipped: bool) -> None:
    path = written(tmp_path / "pairs", b"one\teins\r\ntwo\tzwei\tCC-BY\tnote\n\n", zipped=zipped)
    assert list(read_pairs(Tsv(tsv=path))) == [("one", "eins"), ("two", "zwei"), ("", "")]


def test_the_embedded_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sentence(NamedTuple):
        source: str
        target: str

    monkeypatch.setattr(transduce.embedded, "split", lambda name: [Sentence(name, "größer")])
    assert list(read_pairs(Embedded(embedded="novel"))) == [("novel", "größer")]


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    source = "\ufeffa\u0085b\u2028c\x0bd\re\r\n f \r\r\n\ufeffg".encode()
    spec = files(tmp_path, source, b"1\n2\n3\n")
    assert [pair[0] for pair in read_pairs(spec)] == ["a\u0085b\u2028c\x0bd\re", " f \r", "\ufeffg"]


def test_empty_files(tmp_path: Path) -> None:
    assert list(read_pairs(files(tmp_path, b"", b""))) == []


def test_a_line_without_a_tab(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pairs: line 2 has no tab"):
        list(read_pairs(Tsv(tsv=written(tmp_path / "pairs", b"a\tb\nc d\n"))))


def test_text_that_is_no_utf8_is_refused_by_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.de: line 3 is not UTF-8 .*iconv"):
        list(read_pairs(files(tmp_path, b"a\nb\nc\n", b"a\nb\n\xfcber\n")))


def test_utf16_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.en is UTF-16; convert it"):
        list(read_pairs(files(tmp_path, "a\n".encode("utf-16"), b"a\n")))


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"a line\n" * 1000)
    for damaged in (whole[:-9], whole[:20] + b"\0\0\0\0" + whole[24:]):
        with pytest.raises(ValueError, match=r"a\.en is a damaged gzip file"):
            list(read_pairs(files(tmp_path, damaged, b"x\n" * 1000)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        list(read_pairs(Tsv(tsv=str(tmp_path / "absent"))))


def translations(count: int) -> tuple[list[str], list[str]]:
    """Returns lines of very different lengths, some with numbers, and lines that look like their translations."""
    random = Random(4)
    source, target = [], []
    for number in range(count):
        length = random.randint(1, 25)
        ending = random.choice(".?!")
        end = f" {number}{ending}" if random.random() < 0.2 else ending
        source.append(" ".join(["word"] * length) + end)
        target.append(" ".join(["Wörter"] * (length + random.randint(-1, 1)) or ["ja"]) + end)
    return source, target


@pytest.mark.parametrize(("place", "count"), [(0, 1), (137, 1), (137, 3), (260, 1), (290, 2)])
@pytest.mark.parametrize("from_target", [True, False])
def test_unequal_files_are_refused_with_the_first_misaligned_line(
    tmp_path: Path, place: int, count: int, from_target: bool
) -> None:
    sides = translations(300)
    del sides[from_target][place : place + count]
    spec = files(tmp_path, *("\n".join([*side, ""]).encode() for side in sides))
    with pytest.raises(ValueError, match="most likely line") as caught:
        list(read_pairs(spec))
    message = str(caught.value)
    lines = 300 - count
    assert f"a.en has {lines if not from_target else 300} lines and" in message
    assert f"a.de has {lines if from_target else 300};" in message
    named = int(message.split("most likely line ")[1].split(":")[0])
    assert abs(named - (place + 1)) <= 2
    longer = "a.en" if from_target else "a.de"
    assert message.split(f"Line {lines + 1} is only in ")[1].endswith(f"{longer}.")
    assert re.search(rf"fits line n \+ {count} of \S*{longer} better", message)


def test_an_empty_line_ends_in_no_punctuation_mark() -> None:
    assert _features([b"", b"a.", b"b", b"c,"])["ending"].tolist() == [0, 1, 0, 6]


def test_the_first_of_two_misalignments_is_named(tmp_path: Path) -> None:
    source, target = translations(400)
    del target[301], target[90]
    with pytest.raises(ValueError, match="most likely line") as caught:
        list(read_pairs(files(tmp_path, "\n".join(source).encode(), "\n".join(target).encode())))
    assert abs(int(str(caught.value).split("most likely line ")[1].split(":")[0]) - 91) <= 2


def test_files_without_evidence_name_no_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has 3 lines.*has 2;.*No line shows.*Line 3 is only in .*a\.en"):
        list(read_pairs(files(tmp_path, b"a\na\na\n", b"b\nb\n")))


RIGHT = {"train": {"tsv": "a"}}


def test_one_corpus_is_a_list_of_one() -> None:
    entry, entries = ({"train": train} for train in ({"tsv": "a"}, [{"tsv": "a"}]))
    assert validated(DataSpec, entry, place="r") == validated(DataSpec, entries, place="r")
    assert DataSpec(train=(Tsv(tsv="a"),)).train == (Tsv(tsv="a"),)


def test_the_keys_decide_the_kind_of_corpus() -> None:
    entries = [{"source": "s", "target": "t"}, {"tsv": "a", "weight": 0.5}, {"embedded": "train", "weight": 2}]
    data = validated(DataSpec, {"train": entries, "test": {"spare": entries[0]}}, place="r")
    assert data.train == (Files(source="s", target="t"), Tsv(tsv="a", weight=0.5), Embedded(embedded="train", weight=2))
    assert data.test == {"spare": Files(source="s", target="t")}


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"source": "s"}, r"`train.target` is missing"),
        ({"tsv": "s", "wieght": 1}, r"unknown key `train.wieght`.*`train.weight`"),
        ({"embedded": "train", "wieght": 1}, r"unknown key `train.wieght`.*`train.weight`"),
        ({"tsv": "s", "target": "t"}, r"unknown key `train.target`"),
        ({"tsv": "s", "weight": 0}, r"`train.weight` is 0: write more than 0"),
        ([{"tsv": "s"}, {"embedded": "trian"}], r"`train.1.embedded` is \"trian\": .*'train'"),
        (
            {"files": "s"},
            r"`train` is .*: a corpus is \{source: FILE, target: FILE\}, \{tsv: FILE\}, \{tmx",
        ),
        ("train.tsv", r"`train` is \"train.tsv\": a corpus is"),
        ([], r"`train` is \[\]: .*at least 1"),
    ],
)
def test_a_wrong_entry_is_named(train: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validated(DataSpec, {"train": train}, place="recipe")
