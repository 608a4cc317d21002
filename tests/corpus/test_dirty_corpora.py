"""Dirty corpora: whatever the bytes, every pair is kept or counted, or an error names the file."""

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dirty_pieces import PIECES, has_old_line_ends
from transduce.corpus.corpus_kinds import Files, Tmx, Tsv
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.pair_checks import Fault
from transduce.corpus.planner import Planner, Position
from transduce.corpus.readers import read_byte_lines, read_byte_pairs
from transduce.corpus.store import store_description
from transduce.corpus.store.preparation import PreparedCorpus, open_store, prepare
from transduce.text.byte_level import END
from transduce.text.normalisation import normalise
from transduce.text.subword_training import Bpe
from transduce.text.subwords import Subwords

BYTES = st.lists(
    st.sampled_from([*(piece.encode() for piece in PIECES), b"\xff", b"\xed\xa0\x80", b"\xc3"]), max_size=24
)
CONTENT = BYTES.map(b"".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dirty")


def prepared(folder: Path, spec: Tsv | Files | Tmx, **settings: float) -> PreparedCorpus:
    data = DataSpec(train=(spec,), **settings)
    return prepare(data, Bpe(size=270), folder / "store", threads=1)


def tsv(folder: Path, content: bytes) -> Tsv:
    (folder / "pairs").write_bytes(content)
    return Tsv(tsv=str(folder / "pairs"))


@given(content=CONTENT, zipped=st.booleans())
@example(content=b"\xef\xbb\xbf", zipped=False)
@example(content=b"\n\n", zipped=False)
@example(content=b"a\r\r\n\r\n\xef\xbb\xbfb", zipped=True)
def test_lines_end_at_line_feeds(folder: Path, content: bytes, zipped: bool) -> None:
    path = folder / "lines"
    path.write_bytes(gzip.compress(content) if zipped else content)
    text = content.removeprefix(b"\xef\xbb\xbf")
    if has_old_line_ends(content.partition(b"\n")[0] + b"\n" * (b"\n" in content)):
        with pytest.raises(ValueError, match=r"lines has carriage returns in the place of line feeds"):
            list(read_byte_lines(path))
        return
    lines = text.removesuffix(b"\n").split(b"\n") if content else []
    assert list(read_byte_lines(path)) == [line.removesuffix(b"\r") for line in lines]


@given(sides=st.lists(st.tuples(BYTES, BYTES), min_size=1, max_size=6))
@settings(max_examples=12)
def test_every_pair_is_kept_or_counted_and_used_once_an_epoch(
    folder: Path, sides: list[tuple[list[bytes], ...]]
) -> None:
    """The last pair has no fault, because a corpus without a kept pair is refused."""
    lines = [b"\t".join(b"".join(side) for side in pair).replace(b"\n", b"") for pair in sides]
    assume(not has_old_line_ends(lines[0] + b"\n"))
    spec = tsv(folder, b"\n".join([*lines, b"one pair\tein Paar"]))
    made = prepared(folder, spec, ratio=2.0)
    pairs = list(read_byte_pairs(spec))
    dropped = sum(made.report.faults.values()) - made.report.faults.get(Fault.MARKUP, 0)
    assert made.report.read == len(pairs) == made.report.kept + dropped
    assert len(made.train) == made.report.kept
    stored = Counter(made.source.decode([made.train.sentence("source", n)])[0].encode() for n in range(len(made.train)))
    assert stored <= Counter(normalise(source.decode(errors="replace"), "source").encode() for source, _ in pairs)
    used: list[bytes] = []
    for step in Planner(made.train, batch_tokens=600, micro_batches=2, seed=3).steps():
        used += [np.trim_zeros(row, "b").tobytes() for micro_batch in step.micro_batches for row in micro_batch.source]
        if step.position == Position(1):
            break
    assert Counter(used) == Counter(
        np.array([*made.train.sentence("source", n), END]).tobytes() for n in range(len(made.train))
    )


@given(content=CONTENT)
def test_a_truncated_gzip_file_is_named(folder: Path, content: bytes) -> None:
    packed = gzip.compress(content + b"x" * 50)
    (folder / "packed").write_bytes(packed[: len(packed) - 1 - len(content) % 12])
    with pytest.raises(ValueError, match=r"packed is a damaged gzip file"):
        list(read_byte_lines(folder / "packed"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\n".encode("utf-16"), "UTF-16"),
        ("a\tb\n".encode("utf-32"), "UTF-32"),
        (b"BZh91AY&SY\x0a\x09", "bzip2"),
        (b"\xfd7zXZ\0\x0a\x09", "a damaged xz file"),
        (b"\x28\xb5\x2f\xfd\x0a\x09", "unzstd"),
        (b"PK\x03\x04\x0a\x09", "unzip"),
        (b"a\tb\rc\td\r", r"tr '\\r' '\\n'"),
    ],
)
def test_files_that_are_not_text_are_named_with_a_remedy(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"pairs (is|has) .*{message}"):
        prepared(tmp_path, tsv(tmp_path, content))


def test_a_folder_or_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(ValueError, match=r"a corpus is a file, which can be read several times"):
            prepared(tmp_path, Tsv(tsv=str(path)))


def test_a_very_long_line_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.text.lines.MAX_LINE_BYTES", 100)
    (tmp_path / "lines").write_bytes(b"a\n" + b"b" * 98 + b"\n" + b"c" * 100 + b"\n")
    with pytest.raises(ValueError, match=r"lines: line 3 is longer than 100 bytes"):
        list(read_byte_lines(tmp_path / "lines"))


def test_a_file_that_is_no_corpus_is_refused_before_its_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The checksum of 10 GB of zeros takes half a minute.
    def checksum(path: Path) -> str:
        raise AssertionError(f"{path} was read whole")

    monkeypatch.setattr(store_description, "_checksum", checksum)
    path = tmp_path / "memory.tmx"
    path.write_bytes(bytes(1000))
    memory = Tmx(tmx=str(path), languages=("en", "de"))
    with pytest.raises(ValueError, match=r"memory\.tmx is not well-formed XML"):
        prepared(tmp_path, memory)


def test_a_line_of_a_megabyte_is_dropped_before_it_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A batch has two thousand lines: encoding long ones would take gigabytes.
    good, huge = "a cat\teine Katze\n", "x" * 1_000_000 + "\teine Katze\n"
    spec = tsv(tmp_path, (good + huge + good).encode())
    lengths: list[int] = []
    encode = Subwords.encode
    monkeypatch.setattr(Subwords, "encode", lambda self, lines: lengths.extend(map(len, lines)) or encode(self, lines))
    made = prepared(tmp_path, spec)
    assert (made.report.read, made.report.kept, made.report.places[Fault.LONG]) == (3, 2, ["pairs:2"])
    assert max(lengths) < 100_000


DAMAGES = ["target.ids", "source.offsets", "tokenizer.json", "store.json"]


@pytest.mark.parametrize("name", DAMAGES)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=4)
def test_preparing_replaces_a_store_with_a_flipped_bit(folder: Path, name: str, place: float, bit: int) -> None:
    spec = tsv(folder, b"one pair\tein Paar\ntwo\tzwei\n")
    made = prepared(folder, spec)
    before = {path.name: path.read_bytes() for path in made.directory.iterdir()}
    content = bytearray(before[name])
    content[int(place * len(content))] ^= 1 << bit
    (made.directory / name).write_bytes(content)
    assert prepared(folder, spec).fingerprint == made.fingerprint
    after = {path.name: path.read_bytes() for path in made.directory.iterdir()}
    assert after.keys() == before.keys()
    assert {name for name in before if after[name] != before[name]} <= {"store.json"}  # it contains times of change


@pytest.mark.parametrize(
    "content", ["[]", "3", "{}", '{"version": 2}', "[" * 9_999, "\ud800", '{"version": 2, "files": 3}']
)
def test_an_invalid_description_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "store.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=r"the store in .* cannot be used"):
        open_store(tmp_path)


def test_an_edited_description_is_refused(tmp_path: Path) -> None:
    made = prepared(tmp_path, tsv(tmp_path, b"one pair\tein Paar\n"))
    path = made.directory / "store.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "dropout": 0.9}))
    with pytest.raises(ValueError, match=r"store\.json has changed since it was written"):
        open_store(made.directory)
