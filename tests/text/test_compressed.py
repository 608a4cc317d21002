"""Texts that are compressed are read as the plain ones are, wherever lines are read."""

import gzip
import lzma
import sys
from pathlib import Path

import pytest

from micro_run import forked
from transduce.corpus.readers import read_byte_lines
from transduce.text.lines import read_lines

TEXT = b"one\ntwo\r\n\nf\xc3\xbcnf"
PACKERS = pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])


@PACKERS
def test_lines_are_those_of_the_plain_file(tmp_path: Path, pack) -> None:
    (tmp_path / "plain").write_bytes(TEXT)
    (tmp_path / "renamed.txt").write_bytes(pack(TEXT))
    assert (
        read_lines(str(tmp_path / "renamed.txt")) == read_lines(str(tmp_path / "plain")) == ["one", "two", "", "fünf"]
    )
    assert [*read_byte_lines(tmp_path / "renamed.txt")] == [*read_byte_lines(tmp_path / "plain")]


@PACKERS
def test_an_empty_text_has_no_line(tmp_path: Path, pack) -> None:
    for content in (b"", pack(b"")):
        (tmp_path / "text").write_bytes(content)
        assert read_lines(str(tmp_path / "text")) == []


@pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "gzip"), (lzma.compress, "xz")])
def test_a_damaged_file_is_named(tmp_path: Path, pack, name) -> None:
    whole = pack(b"a line\n" * 1000)
    for damaged in (whole[:-9], whole[:20] + b"\0\0\0\0" + whole[24:]):
        (tmp_path / "text").write_bytes(damaged)
        for read in (read_lines, lambda path: [*read_byte_lines(Path(path))]):
            with pytest.raises(ValueError, match=f"text is a damaged {name} file"):
                read(str(tmp_path / "text"))


def test_other_compressions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\x28\xb5\x2f\xfd\x0a")
    with pytest.raises(ValueError, match="text is compressed with zstd; unpack it with `unzstd`"):
        read_lines(str(tmp_path / "text"))


def test_a_python_without_lzma_reads_everything_else(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "lzma", None)
    (tmp_path / "text").write_bytes(gzip.compress(TEXT))
    assert read_lines(str(tmp_path / "text"))[0] == "one"
    (tmp_path / "text").write_bytes(lzma.compress(TEXT))
    with pytest.raises(ValueError, match="text is compressed with xz, which this Python cannot read; unpack it"):
        read_lines(str(tmp_path / "text"))


def test_commands_read_compressed_texts(fluent, micro, tmp_path) -> None:
    packed = {}
    for name in ("test.en", "test.de"):
        packed[name] = tmp_path / f"{name}.gz"
        packed[name].write_bytes(gzip.compress((micro / name).read_bytes()))
    plain = forked("translate", fluent, micro / "test.en").out
    assert forked("translate", fluent, packed["test.en"]).out == plain
    score = [
        forked("evaluate", fluent, "--source", source, "--reference", reference).out
        for source, reference in ((micro / "test.en", micro / "test.de"), packed.values())
    ]
    assert score[0].splitlines()[0] == score[1].splitlines()[0]


def test_compressed_standard_input_is_named(fluent, micro) -> None:
    ended = forked("translate", fluent, given=gzip.compress((micro / "test.en").read_bytes()))
    assert ended.code == 2
    assert "standard input is compressed with gzip: unpack it" in ended.error
