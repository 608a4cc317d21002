"""Preparing and the store: pairs kept and dropped, files, resuming, damage, subword dropout."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest

from transduce.corpus import learned_subwords
from transduce.corpus.corpus_kinds import Files, Tsv
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.pair_checks import Fault, Report
from transduce.corpus.store import encoding, store_description
from transduce.corpus.store.encoding import EncodingState
from transduce.corpus.store.preparation import PreparedCorpus, open_store, prepare, verify_store
from transduce.corpus.store.token_store import FILES
from transduce.text.subword_training import Bpe, WordPiece
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import share_subwords

PAIRS = [
    ("A dog runs.", "Ein Hund rennt."),
    ("Two dogs run.", "Zwei Hunde rennen."),
    ("The cat sleeps on the warm stones.", "Die Katze schläft auf den warmen Steinen."),
    ("Do cats sleep?", "Schlafen Katzen?"),
] * 4
SPECS: list[Bpe | WordPiece] = [Bpe(size=290), Bpe(size=300, shared=False), WordPiece(size=540)]


def corpus(folder: Path, pairs: list[tuple[str, str]], name: str = "pairs") -> Tsv:
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    return Tsv(tsv=str(path))


def prepared(folder: Path, data: DataSpec, subwords: Bpe | WordPiece = SPECS[0]) -> PreparedCorpus:
    return prepare(data, subwords, folder / "store", threads=1)


def size_of(path: Path) -> int:
    return path.stat().st_size


def describe(place: Path, **changes: Any) -> None:
    """Changes values of a store's description, and renews the checksums, the times of change and the seal."""
    values = json.loads((place / "store.json").read_text())
    del values["seal"]
    if "files" not in changes:
        files = store_description.describe_files([place / name for name in values["files"]])
        changes["files"] = {name: file.as_dictionary() for name, file in files.items()}
    values |= changes
    (place / "store.json").write_text(json.dumps(values | {"seal": store_description._seal(values)}))


@pytest.mark.parametrize("spec", SPECS, ids=["shared", "separate", "wordpiece"])
def test_the_store_holds_the_encoded_pairs(tmp_path: Path, spec: Bpe | WordPiece) -> None:
    made = prepared(tmp_path, DataSpec(train=(corpus(tmp_path, PAIRS),)), spec)
    for opened in (made, open_store(tmp_path / "store")):
        assert share_subwords((opened.source, opened.target)) == spec.shared
        assert len(opened.train) == len(PAIRS)
        for number, (source, target) in enumerate(PAIRS):
            assert opened.train.sentence("source", number).tolist() == opened.source.encode([source])[0]
            assert opened.train.sentence("target", number).tolist() == opened.target.encode([target])[0]
            assert opened.train.source_lengths[number] == len(opened.train.sentence("source", number))
            assert opened.train.target_lengths[number] == len(opened.train.sentence("target", number))
        assert opened.report == Report(read=len(PAIRS), kept=len(PAIRS))


def test_rows_are_padded(tmp_path: Path) -> None:
    store = prepared(tmp_path, DataSpec(train=(corpus(tmp_path, PAIRS),))).train
    rows, lengths = store.padded("target", np.array([5, 0, 2]), store.max_length + 3)
    assert rows.shape == (3, store.max_length + 3)
    for row, length, number in zip(rows, lengths, (5, 0, 2)):
        assert row[:length].tolist() == store.sentence("target", number).tolist()
        assert not row[length:].any()


def test_faulty_pairs_are_dropped_and_counted_with_their_lines(tmp_path: Path) -> None:
    long = "so " * 60
    lines = [
        *(f"{source}\t{target}".encode() for source, target in PAIRS[:3]),
        b"caf\xe9\tKaffee",
        b"tea\tT\xffe",
        b"a\0b\tab",
        b" \xc2\xa0\tnothing",
        b"nothing\t",
        (long + "\t" + long).encode(),
        b"a b c d e f g h\ty",
        b"<seg id=1> A dog.\t<seg id=1> Ein Hund.",
        b"A dog.\tEin Hund.",
        b"<seg> a b c d e f g h\t<seg>",  # a pair that is dropped is not also kept with markup
    ]
    (tmp_path / "dirty").write_bytes(b"\n".join(lines))
    data = DataSpec(train=(Tsv(tsv=str(tmp_path / "dirty")),), max_length=40, ratio=2.0)
    made = prepared(tmp_path, data)
    assert (made.report.read, made.report.kept, len(made.train)) == (13, 5, 5)
    assert made.report.faults == {
        Fault.BAD_UTF8: 2,
        Fault.NUL: 1,
        Fault.EMPTY: 2,
        Fault.LONG: 1,
        Fault.RATIO: 2,
        Fault.MARKUP: 1,
    }
    assert made.report.places[Fault.BAD_UTF8] == ["dirty:4", "dirty:5"]
    assert made.report.places[Fault.RATIO] == ["dirty:10", "dirty:13"]
    assert made.source.decode([made.train.sentence("source", 4)]) == ["A dog."]
    assert made.report.summary()[:3] == [
        "5 of 13 pairs kept",
        "2 dropped, no UTF-8: dirty:4, dirty:5",
        "1 dropped, with a NUL character: dirty:6",
    ]
    assert open_store(tmp_path / "store").report == made.report


def test_a_report_names_three_places_of_a_fault(tmp_path: Path) -> None:
    report = Report(read=9, kept=4)
    for number in range(5):
        report.note(Fault.EMPTY, f"x:{number}")
    assert report.summary() == ["4 of 9 pairs kept", "5 dropped, with an empty side: x:0, x:1, x:2, …"]


@pytest.mark.parametrize(("longest", "ratio", "kept"), [(8, None, 2), (7, None, 1), (8, 3.0, 2), (8, 2.9, 1)])
def test_the_bounds_of_length_and_ratio_are_inclusive(
    tmp_path: Path, longest: int, ratio: float | None, kept: int
) -> None:
    # Every byte is a subword: the second pair has 8 and 2 of them, and with their ends 9 and 3.
    data = DataSpec(train=(corpus(tmp_path, [("a", "b"), ("abcdefg", "x")]),), max_length=longest, ratio=ratio)
    assert prepared(tmp_path, data, Bpe(size=259)).report.kept == kept


def test_subwords_are_learnt_from_an_evenly_spread_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_subwords, "SAMPLE", 10)
    first = corpus(tmp_path, [(f"line {number}", "x") for number in range(13)], "one")
    second = corpus(tmp_path, [(f"line {number}", "x") for number in range(13, 37)], "two")
    sample, _ = learned_subwords.sample_pairs([first, second], 9)
    assert [source for _, source, _ in sample] == [f"line {number}" for number in range(0, 37, 4)]


def test_long_lines_make_batches_and_the_sample_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "BATCH_BYTES", 1000)
    monkeypatch.setattr(learned_subwords, "SAMPLE_BYTES", 3000)
    data = DataSpec(train=(corpus(tmp_path, [("a" * 400, "ä" * 100)] * 9 + PAIRS[:4]),))
    batches = [
        [number for number, _ in batch.pairs] for batch in encoding._batches(data, EncodingState(Report()), [{}])
    ]
    assert batches == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10, 11, 12, 13]]
    sample, pairs = learned_subwords.sample_pairs(data.train, 256)
    assert ([place for place, _, _ in sample], pairs) == (["pairs:1", "pairs:5", "pairs:9", "pairs:13"], 13)
    monkeypatch.setattr(learned_subwords, "SAMPLE_BYTES", 1)
    assert [place for place, _, _ in learned_subwords.sample_pairs(data.train, 256)[0]] == ["pairs:1"]


def test_a_corpus_without_a_kept_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no pair is left to train on; 0 of 1 pairs kept; 1 dropped, with an empty side"
    ):
        prepared(tmp_path, DataSpec(train=(corpus(tmp_path, [("a", "")]),)))


def test_corpora_keep_their_weights(tmp_path: Path) -> None:
    first = corpus(tmp_path, [*PAIRS[:3], ("", "")], "one")
    second = corpus(tmp_path, PAIRS[:2], "two").model_copy(update={"weight": 2.5})
    assert prepared(tmp_path, DataSpec(train=(first, second))).train.parts == ((3, 1.0), (2, 2.5))


def _times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_a_current_store_is_not_made_again(tmp_path: Path) -> None:
    entry = corpus(tmp_path, PAIRS)
    made = prepared(tmp_path, DataSpec(train=(entry,)))
    before = _times(tmp_path / "store")
    # Where the files lie, and what is validated on, do not matter.
    moved = Path(entry.tsv).rename(tmp_path / "moved")
    data = DataSpec(train=(Tsv(tsv=str(moved)),), validation=Tsv(tsv="elsewhere"), source_language="en")
    assert prepared(tmp_path, data).fingerprint == made.fingerprint
    assert _times(tmp_path / "store") == before


def _longer(data: DataSpec) -> tuple[DataSpec, Bpe]:
    return data.model_copy(update={"max_length": 255}), Bpe(size=290)


def _weight(data: DataSpec) -> tuple[DataSpec, Bpe]:
    return data.model_copy(update={"train": (data.train[0].model_copy(update={"weight": 2.0}),)}), Bpe(size=290)


def _size(data: DataSpec) -> tuple[DataSpec, Bpe]:
    return data, Bpe(size=291)


def _text(data: DataSpec) -> tuple[DataSpec, Bpe]:
    assert isinstance(data.train[0], Tsv)
    path = Path(data.train[0].tsv)
    path.write_text(path.read_text("utf-8").replace("dog", "fox", 1), "utf-8")
    return data, Bpe(size=290)


@pytest.mark.parametrize("change", [_longer, _weight, _size, _text])
def test_a_change_of_data_or_settings_replaces_the_store(
    tmp_path: Path, change: Callable[[DataSpec], tuple[DataSpec, Bpe]]
) -> None:
    data = DataSpec(train=(corpus(tmp_path, PAIRS),))
    old = prepared(tmp_path, data)
    sentence = old.train.sentence("source", 0).tolist()
    changed = change(data)
    new = prepared(tmp_path, *changed)
    assert new.fingerprint != old.fingerprint
    assert old.train.sentence("source", 0).tolist() == sentence  # a mapped file stays readable after its replacement
    assert prepared(tmp_path, *changed).fingerprint == new.fingerprint


@pytest.mark.parametrize("damage", ["no description", "broken description", "other version", "short file", "lost file"])
def test_an_incomplete_store_is_refused_and_replaced(tmp_path: Path, damage: str) -> None:
    data = DataSpec(train=(corpus(tmp_path, PAIRS),))
    first = prepared(tmp_path, data)
    folder = tmp_path / "store"
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    match damage:
        case "no description":
            (folder / "store.json").unlink()
        case "broken description":
            (folder / "store.json").write_bytes(whole["store.json"][:-20])
        case "other version":
            (folder / "store.json").write_text(json.dumps({**json.loads(whole["store.json"]), "version": 7}), "utf-8")
        case "short file":
            (folder / "target.ids").write_bytes(whole["target.ids"][:-2])
        case "lost file":
            (folder / "source.offsets").unlink()
    with pytest.raises(ValueError, match=r"store.*prepare"):
        open_store(folder)
    assert prepared(tmp_path, data).fingerprint == first.fingerprint
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert made.keys() == whole.keys()
    assert {name for name in made if made[name] != whole[name]} <= {"store.json"}  # it contains times of change


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupted_preparation_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, log_lines
) -> None:
    monkeypatch.setattr(encoding, "BATCH", 3)
    monkeypatch.setattr(encoding, "SAVE_EVERY", 2)
    monkeypatch.setattr(encoding, "PAIRS_PER_PROCESS", 5)  # one process encodes what is left for the last two starts
    first, second = corpus(tmp_path, [*PAIRS, ("", "")], "one"), corpus(tmp_path, PAIRS[:7], "two")
    data = DataSpec(train=(first, second))
    whole = prepare(data, SPECS[0], tmp_path / "whole", threads=1)
    written, batches = encoding._append_batch, 0

    def stopped(*arguments: Any) -> Any:
        nonlocal batches
        batches += 1
        if batches % 3 == 0:
            raise StoppedError
        return written(*arguments)

    monkeypatch.setattr(encoding, "_append_batch", stopped)
    monkeypatch.setattr(Subwords, "learn", Mock(wraps=Subwords.learn))
    log_lines.clear()
    for _ in range(20):
        try:
            made = prepare(data, SPECS[0], tmp_path / "store", threads=threads)
            break
        except StoppedError:
            assert not (tmp_path / "store" / "store.json").exists()
    resumptions = [line for line in log_lines if "resuming" in line]
    assert len(resumptions) > 2
    assert resumptions[0] == "resuming after 6 pairs"
    assert Subwords.learn.call_count == 1  # type: ignore[attr-defined]
    assert made.report == whole.report
    for name in FILES:
        assert (tmp_path / "store" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_interruption_after_the_encoding_does_not_encode_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataSpec(train=(corpus(tmp_path, PAIRS),))
    with monkeypatch.context() as patched:
        patched.setattr(
            "transduce.corpus.store.preparation.flush_to_disk", Mock(side_effect=[DEFAULT] * 2 + [StoppedError])
        )
        with pytest.raises(StoppedError):
            prepared(tmp_path, data)
    monkeypatch.setattr(encoding, "_append_batch", Mock(side_effect=AssertionError("encoded again")))
    assert len(prepared(tmp_path, data).train) == len(PAIRS)


def test_a_store_in_use_is_not_replaced(tmp_path: Path) -> None:
    data = DataSpec(train=(corpus(tmp_path, PAIRS),))
    prepared(tmp_path, data)
    before = {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    other = data.model_copy(update={"max_length": 7})
    with pytest.raises(ValueError, match=r"has changed since .* was made, and a run has begun with it"):
        prepare(other, SPECS[0], tmp_path / "store", threads=1, in_use=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()} == before
    assert prepare(data, SPECS[0], tmp_path / "store", threads=1, in_use=True).directory


def test_the_files_that_have_changed_are_named(tmp_path: Path) -> None:
    data = DataSpec(train=(corpus(tmp_path, PAIRS, "same"), corpus(tmp_path, PAIRS, "other")))
    prepared(tmp_path, data)
    with (tmp_path / "other").open("a") as file:
        file.write("more\ttext\n")
    with pytest.raises(ValueError, match=r"the training data \(\S+other\) has changed since"):
        prepare(data, SPECS[0], tmp_path / "store", threads=1, in_use=True)


@pytest.mark.parametrize("damage", ["short", "lost", "subwords", "state"])
def test_a_damaged_interrupted_preparation_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(encoding, "BATCH", 3)
    monkeypatch.setattr(encoding, "SAVE_EVERY", 2)
    data = DataSpec(train=(corpus(tmp_path, PAIRS),))
    whole = prepare(data, SPECS[0], tmp_path / "whole", threads=1)
    written = encoding._append_batch
    with monkeypatch.context() as patched:
        patched.setattr(encoding, "_append_batch", Mock(side_effect=[*[DEFAULT] * 4, StoppedError], wraps=written))
        with pytest.raises(StoppedError):
            prepared(tmp_path, data)
    making = tmp_path / "store" / "making"
    match damage:
        case "short":
            (making / "target.ids").write_bytes((making / "target.ids").read_bytes()[:-40])
        case "lost":
            (making / "source.offsets").unlink()
        case "subwords":
            (making / "tokenizer.json").write_text((making / "tokenizer.json").read_text().replace("the", "eht"))
        case "state":
            (making / "state.json").write_text("{}")
    made = prepared(tmp_path, data)
    assert made.report == whole.report
    for name in (*FILES, "tokenizer.json"):
        assert (tmp_path / "store" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_interrupted_preparation_of_other_data_is_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(encoding, "_append_batch", Mock(side_effect=StoppedError))
        with pytest.raises(StoppedError):
            prepared(tmp_path, DataSpec(train=(corpus(tmp_path, PAIRS),)))
    other = DataSpec(train=(corpus(tmp_path, PAIRS[:5]),))
    assert len(prepared(tmp_path, other).train) == 5


def test_a_current_store_is_opened_without_reading_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = corpus(tmp_path, PAIRS)
    made = prepared(tmp_path, DataSpec(train=(entry,)))
    with monkeypatch.context() as patched:
        patched.setattr(store_description, "_checksum", Mock(side_effect=AssertionError))
        assert prepared(tmp_path, DataSpec(train=(entry,))).fingerprint == made.fingerprint
    # The same size, another content.
    Path(entry.tsv).write_text(Path(entry.tsv).read_text("utf-8").replace("A dog", "A god"), "utf-8")
    os.utime(entry.tsv, ns=(0, 1))
    assert prepared(tmp_path, DataSpec(train=(entry,))).fingerprint != made.fingerprint


def test_a_path_need_not_be_normalised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus(tmp_path, PAIRS)
    monkeypatch.chdir(tmp_path)
    assert len(prepared(tmp_path, DataSpec(train=(Tsv(tsv="././pairs"),))).train) == len(PAIRS)


def test_a_corpus_without_a_kept_pair_gives_a_warning(tmp_path: Path, log_lines) -> None:
    (tmp_path / "empty").write_text("")
    entries = (corpus(tmp_path, PAIRS), Tsv(tsv=str(tmp_path / "empty")))
    made = prepare(DataSpec(train=entries), SPECS[0], tmp_path / "store", threads=1)
    assert [part.pairs for part in made.train.parts] == [len(made.train), 0]
    assert "warning: empty: no pair is kept; the training does not use this corpus" in log_lines


def test_a_store_with_a_wrong_number_of_pairs_is_refused(tmp_path: Path) -> None:
    prepared(tmp_path, DataSpec(train=(corpus(tmp_path, PAIRS),)))
    description = json.loads((tmp_path / "store/store.json").read_text())
    (pairs, weight), *_ = description["parts"]
    describe(tmp_path / "store", parts=[[pairs + 1, weight]])
    with pytest.raises(ValueError, match=r"it does not hold the .* pairs that it counts"):
        open_store(tmp_path / "store")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("dtype", "|O", r"`dtype`: Input should be '<u2' or '<u4'"),
        ("parts", [[-1, 1.0], [17, 1.0]], r"`parts.0.0`: Input should be greater than or equal to 0"),
        ("parts", [[16, -1.0]], r"`parts.0.1`: Input should be greater than 0"),
        ("parts", [[16, float("inf")]], r"`parts.0.1`: Input should be"),
        ("parts", [[16, float("nan")]], r"`parts.0.1`: Input should be"),
        ("parts", [["16", 1.0]], r"`parts.0.0`: Input should be a valid integer"),
        ("parts", [[10**30, 1.0]], r"it does not hold the .* pairs"),
        ("longest", -1, r"`longest`: Input should be greater than or equal to 0"),
        ("shared", 1, r"`shared`: Input should be a valid boolean"),
        ("dropout", 1.0, r"`dropout`: Input should be less than 1"),
        ("report", {"read": 16, "kept": -16}, r"`report.kept`: Input should be greater than or equal to 0"),
        ("report", {"faults": {"other": 1}}, r"`report.faults.other.\[key\].*`: Input should be 'dropped"),
        ("made_of", [{"path": "x"}], r"`made_of.0.size`: Field required"),
        ("files", {}, r"source.ids, source.offsets, target.ids, target.offsets, tokenizer.json is missing"),
        ("files", {"../x": {"bytes": 1, "sha256": ""}}, r"`files.../x.\[key\]`: String should match pattern"),
        ("other", 1, r"`other`: Extra inputs are not permitted"),
    ],
)
def test_a_description_with_a_wrong_value_is_refused(tmp_path: Path, key: str, value: Any, message: str) -> None:
    data = DataSpec(train=(corpus(tmp_path, PAIRS),))
    made = prepared(tmp_path, data)
    describe(made.directory, **{key: value})
    with pytest.raises(ValueError, match=f"the store in .* cannot be used: store.json: .*{message}.*prepare again"):
        open_store(made.directory)
    (fault,) = verify_store(made.directory)
    assert "store.json: " in fault
    assert prepared(tmp_path, data).fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("source.offsets", 0, 1, "source.offsets go from 1 to"),
        ("source.offsets", -1, 1 << 40, "source.offsets go from 0 to 1,099,511,627,776, and source.ids has "),
        ("target.offsets", 2, 1 << 40, "target.offsets has a sentence of less than 0 or more than"),
        ("target.offsets", 2, -1, "target.offsets has a sentence of less than 0 or more than"),
        ("source.ids", 3, 60_000, "source.ids has a token that is none of the 290 of its vocabulary"),
        ("target.ids", 3, 0, "target.ids has a token that is none of the 290 of its vocabulary"),
    ],
)
def test_sentences_that_are_none_are_found(tmp_path: Path, name: str, place: int, value: int, message: str) -> None:
    data = DataSpec(train=(corpus(tmp_path, PAIRS),))
    made = prepared(tmp_path, data)
    whole = (made.directory / name).read_bytes()
    file = np.memmap(made.directory / name, "<i8" if "offsets" in name else "<u2", mode="r+")
    file[place] = value
    file.flush()
    describe(made.directory)
    (fault,) = verify_store(made.directory)
    assert message in fault
    os.utime(made.directory / name, ns=(0, 1))  # what was touched is read
    assert prepared(tmp_path, data).fingerprint == made.fingerprint
    assert (made.directory / name).read_bytes() == whole


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("source.ids", 60_000, "source.ids of the store has a token that is not in its vocabulary"),
        ("target.offsets", 1 << 40, "target.offsets of the store are no ends of sentences in target.ids"),
    ],
)
def test_a_store_that_was_changed_unnoticed_is_refused_when_it_is_read(
    tmp_path: Path, name: str, value: int, message: str
) -> None:
    """Checksums, seal and times may be renewed by whoever changed the files; torch would raise IndexError."""
    made = prepared(tmp_path, DataSpec(train=(corpus(tmp_path, PAIRS),)))
    file = np.memmap(made.directory / name, "<i8" if "offsets" in name else "<u2", mode="r+")
    file[3] = value
    file.flush()
    describe(made.directory)
    store = open_store(made.directory).train
    with pytest.raises(ValueError, match=message):
        store.padded("source" if "source" in name else "target", np.arange(5), 20)


def test_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_lines) -> None:
    monkeypatch.setattr(encoding, "BATCH", 4)
    monkeypatch.setattr(encoding, "PROGRESS_SECONDS", 0.0)
    prepare(DataSpec(train=(corpus(tmp_path, PAIRS),)), SPECS[0], tmp_path / "store", threads=1)
    assert [line.partition(" pairs,")[0] for line in log_lines if " a second" in line] == [
        f"{done} of 16" for done in (4, 8, 12, 16)
    ]


def test_a_store_of_a_hundred_million_pairs_is_opened_without_being_read(tmp_path: Path) -> None:
    """The files are sparse: reading them would take minutes and gigabytes."""
    made = prepared(tmp_path, DataSpec(train=(corpus(tmp_path, PAIRS),)))
    place, pairs = tmp_path / "store", 100_000_000
    for name in FILES:
        with (place / name).open("r+b") as file:
            file.truncate(8 * pairs if "offsets" in name else 50 * pairs)
            if "offsets" in name:
                file.seek(0, os.SEEK_END)
                file.write((25 * pairs).to_bytes(8, "little"))
    files = json.loads((place / "store.json").read_text())["files"]
    describe(
        place, parts=[[pairs, 1.0]], files={name: {**files[name], "bytes": size_of(place / name)} for name in files}
    )
    began = time.process_time()
    opened = open_store(place).train
    assert len(opened) == pairs
    assert time.process_time() - began < 1
    assert opened.max_length == made.train.max_length


def test_a_failure_leaves_no_store(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    with pytest.raises(ValueError, match="2 lines"):
        prepared(tmp_path, DataSpec(train=(Files(source=str(tmp_path / "a"), target=str(tmp_path / "b")),)))
    with pytest.raises(ValueError, match="no complete store"):
        open_store(tmp_path / "store")
    (tmp_path / "b").write_text("eins\nzwei\n")
    made = prepared(tmp_path, DataSpec(train=(Files(source=str(tmp_path / "a"), target=str(tmp_path / "b")),)))
    assert len(made.train) == 2


def test_preparing_sets_threads_only_where_the_environment_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYON_NUM_THREADS", "3")
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    prepare(DataSpec(train=(corpus(tmp_path, PAIRS),)), SPECS[0], tmp_path / "store", threads=2)
    assert os.environ["RAYON_NUM_THREADS"] == "3"
    assert os.environ["TOKENIZERS_PARALLELISM"] == "true"


def test_subword_dropout_encodes_every_epoch_anew(tmp_path: Path) -> None:
    data = DataSpec(train=(corpus(tmp_path, PAIRS),))
    made = prepared(tmp_path, data, Bpe(size=290, dropout=0.4))
    plain = prepare(data, Bpe(size=290), tmp_path / "plain", threads=1)
    store = made.train

    def sentences(seed: int, epoch: int) -> list[list[int]]:
        encoded = open_store(tmp_path / "store").train.in_epoch(seed, epoch)
        return [encoded.sentence(side, i).tolist() for side in ("source", "target") for i in range(len(encoded))]

    assert [store.sentence("source", i).tolist() for i in range(4)] == [
        plain.train.sentence("source", i).tolist() for i in range(4)
    ]
    first = sentences(3, 0)
    assert made.source.decode(first) == [source for source, _ in PAIRS] + [target for _, target in PAIRS]
    assert first == sentences(3, 0)
    assert first != sentences(3, 1)
    assert first != sentences(4, 0)
    assert first[:4] != first[4:8]  # the same text, other sentence numbers
    assert max(map(len, first)) <= store.max_length
    assert sum(map(len, first)) > 1.1 * (plain.train.source_lengths + plain.train.target_lengths).sum()
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == sorted(
        path.name for path in (tmp_path / "plain").iterdir()
    )
