"""Bulk translation: the same lines as at once after any stop, and none of another text, model or option."""

import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
from types import SimpleNamespace

import pytest

from log_records import logged_lines
from micro_run import WORDS, Moment, forked
from transduce.bulk import translate_shards
from transduce.bulk.shards import cut_texts
from transduce.bulk.translate_shards import (
    ShardTranslator,
    TranslationJob,
    int8_bits,
    translate_locally,
    translate_texts,
)
from transduce.runtime import progress
from transduce.runtime.signals import Interrupted
from transduce.search.beam import Decoding
from transduce.search.greedy_and_sampling import Sampling
from transduce.storage.locks import exclusive_lock
from transduce.text.lines import read_lines
from transduce.translation.engine import TorchEngine
from transduce.translation.output_format import OutputFormat
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

LINES = 17
METHOD = SearchMethod(Decoding(beam=2, extra_length=4))


def with_models(job, runs):
    """Returns the job with other models."""
    fields = {name: value for name, value in job._asdict().items() if name not in ("runs", "fingerprints", "method")}
    return TranslationJob.of(runs, job.method, **fields)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Lines of all kinds: empty, with a line end of Windows, with characters that end a line for other programs."""
    generator = random.Random(1)
    lines = [" ".join(generator.choice(WORDS) for _ in range(generator.randint(1, 9))) for _ in range(LINES)]
    lines[4], lines[9], lines[12] = "", "owl\u0085pig\u2028hen\x0cgnu", "\ufeffcat dog\r"
    path = tmp_path_factory.mktemp("text") / "text.en"
    path.write_bytes(("\ufeff" + "\n".join(lines)).encode())
    return path


@pytest.fixture(scope="module")
def translation(fluent, text):
    """The translation of the text by `transduce translate`."""
    return forked("translate", fluent, text).out


@pytest.fixture
def job(fluent):
    return TranslationJob.of([fluent], METHOD, batch_tokens=1, device="cpu", threads=1)


def bulk_command(model, text, folder):
    return ["translate-corpus", model, text, "--shard-lines=5", "--out", folder / "out"]


class RecordingEngine:
    """The local engine, which records the first lines of the shards that it gets, and can stop after some shards."""

    def __init__(self, stop_after=None):
        self.first_lines, self.stop_after = None, stop_after

    def __call__(self, job, shards):
        self.first_lines = [shard.lines_before for shard in shards]
        for number, result in enumerate(translate_locally(job, shards)):
            if number == self.stop_after:
                raise KeyboardInterrupt
            yield result


def bulk(job, text, out, engine=translate_locally, shard_lines=5):
    """Translates in bulk and returns the messages."""
    with logged_lines() as messages:
        translate_texts(job, cut_texts(text, out, shard_lines), out, engine)
    return messages


def stopped_bulk(job, text, out, after, shard_lines=5):
    with pytest.raises(KeyboardInterrupt):
        bulk(job, text, out, RecordingEngine(after), shard_lines)


def shards(out):
    return sorted(out.with_name(f"{out.name}.bulk").glob("shards/*"))


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--beam", 3],
        ["--greedy"],
        ["--seed", 3, "--top-k", 9],
        ["--precision", "int8"],
    ],
)
def test_output_equals_that_of_translate(fluent, text, tmp_path, command, options):
    code, whole, _ = command("translate", fluent, text, *options)
    assert code == 0
    code, stdout, stderr = command(*bulk_command(fluent, text, tmp_path), *options)
    assert (code, stdout) == (0, "")
    assert (tmp_path / "out").read_text() == whole
    assert "shards: 4; done before: 0; lines in all: 17\n4 of 4 shards, 17 lines, in 0:0" in stderr


def test_batches_are_as_large_as_asked(job, fluent, text, translation, tmp_path, monkeypatch):
    """A line in a larger batch has the translation that it has alone."""
    sizes, search = [], TorchEngine.search
    monkeypatch.setattr(
        TorchEngine,
        "search",
        lambda self, batch, *rest: sizes.append(len(batch.sources)) or search(self, batch, *rest),
    )
    bulk(job._replace(batch_tokens=4096), text, tmp_path / "out", shard_lines=8)
    assert sizes == [7, 8, 1]
    assert (tmp_path / "out").read_text() == translation


@pytest.mark.parametrize(("shard_lines", "models"), [(1, 1), (LINES, 1), (LINES + 1, 2)])
def test_many_shards_or_one_and_an_ensemble(job, fluent, text, translation, tmp_path, shard_lines, models):
    bulk(with_models(job, [fluent] * models), text, tmp_path / "out", shard_lines=shard_lines)
    assert (tmp_path / "out").read_text() == translation


def test_a_second_call_translates_the_missing_shards(job, text, translation, tmp_path):
    out = tmp_path / "out"
    stopped_bulk(job, text, out, after=2)
    assert not out.exists()
    recorder = RecordingEngine()
    # Settings that change only the speed may change.
    messages = bulk(job._replace(batch_tokens=99, threads=None), text, out, recorder)
    assert recorder.first_lines == [10, 15]
    assert messages[0] == "shards: 4; done before: 2; lines in all: 17"
    assert out.read_text() == translation
    assert shards(out) == []


def test_a_third_call_has_nothing_to_do(job, text, translation, tmp_path):
    out = tmp_path / "out"
    bulk(job, text, out)
    written = out.stat()
    recorder = RecordingEngine()
    assert bulk(job, text, out, recorder, shard_lines=3) == [f"{out} is finished"]
    assert recorder.first_lines is None
    again = out.stat()
    assert (again.st_ino, again.st_size, again.st_mtime_ns) == (written.st_ino, written.st_size, written.st_mtime_ns)


@pytest.mark.parametrize("at", [2, 5, 14, 17, 20, 22, 25])
def test_a_call_killed_at_any_moment_resumes(fluent, text, translation, tmp_path, command, at):
    """Operations on files: folders to 3, shards to 15, output and record to 22, then the removal of the shards."""
    ended = forked(*bulk_command(fluent, text, tmp_path), moment=Moment(at))
    assert ended.code == -signal.SIGKILL
    saved = len([path for path in shards(tmp_path / "out") if not path.name.startswith(".")])
    has_output = (tmp_path / "out").exists()
    assert has_output == (at > 20)
    stderr = command(*bulk_command(fluent, text, tmp_path))[2]
    assert (f"done before: {saved};" in stderr) != has_output
    assert (tmp_path / "out").read_text() == translation
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.bulk"]
    assert shards(tmp_path / "out") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_with_a_message(fluent, text, translation, tmp_path, command, number):
    ended = forked(*bulk_command(fluent, text, tmp_path), moment=Moment(11, number))
    assert ended.code == 128 + number
    assert ended.error.endswith("stopped with 2 of 4 shards done; the same command translates the others\n")
    command(*bulk_command(fluent, text, tmp_path))
    assert (tmp_path / "out").read_text() == translation


def method_with(**changes):
    return METHOD._replace(decoding=METHOD.decoding.model_copy(update=changes))


INT8 = {"precision": "int8", "int8_bits": int8_bits("int8")}
SAMPLED = METHOD._replace(sampling=Sampling(), seed=1)


@pytest.mark.parametrize(
    ("first", "change", "fault"),
    [
        ({}, {"method": METHOD._replace(greedy=True)}, "another greedy"),
        ({}, {"method": method_with(beam=1)}, "another beam"),
        ({}, {"method": SAMPLED}, "another sampling"),
        ({"method": SAMPLED}, {"method": SAMPLED._replace(seed=2)}, "another sampling"),
        ({}, INT8, "another precision, another int8_bits"),
        ({}, {"output_format": OutputFormat(scores=True)}, "another output_format"),
    ],
)
def test_other_options_are_never_mixed_in(job, text, tmp_path, first, change, fault):
    out, changed = tmp_path / "out", job._replace(**change)
    job = job._replace(**first)
    stopped_bulk(job, text, out, after=3)
    recorder = RecordingEngine()
    messages = bulk(changed, text, out, recorder)
    assert recorder.first_lines == [0, 5, 10, 15]
    assert "shards of another text, model or option, not used and removed at the end: 3" in messages
    bulk(changed, text, tmp_path / "undisturbed")
    before = out.read_bytes()
    assert before == (tmp_path / "undisturbed").read_bytes()
    with pytest.raises(ValueError, match=f"already exists, of {fault}; move it away"):
        bulk(job, text, out)
    assert out.read_bytes() == before


def test_an_option_that_is_left_out_again_is_another(job, text, tmp_path):
    bulk(job._replace(method=method_with(no_repeat_ngram=3)), text, tmp_path / "out")
    with pytest.raises(ValueError, match="already exists, of another no_repeat_ngram; move it away"):
        bulk(job, text, tmp_path / "out")


def test_the_origin_has_everything_that_a_translation_depends_on(job):
    methods = [METHOD, METHOD._replace(n_best=2), METHOD._replace(greedy=True)]
    methods += [
        method_with(beam=1),
        method_with(length_penalty=5.0),
        method_with(extra_length=0),
        method_with(margin=0.5),
    ]
    methods += [SAMPLED, SAMPLED._replace(seed=2)]
    methods += [
        SAMPLED._replace(sampling=Sampling(**change)) for change in ({"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.5})
    ]
    jobs = [job._replace(method=method) for method in methods]
    jobs += [job._replace(output_format=OutputFormat(**{name: True})) for name in OutputFormat._fields]
    jobs += [
        job._replace(**INT8),
        job._replace(fingerprints=("another",)),
        job._replace(fingerprints=job.fingerprints * 2),
    ]
    assert len({json.dumps(job.origin) for job in jobs}) == len(jobs)
    # The origin has neither the device, the speed, nor the seed of a search that does not sample.
    same = job._replace(runs=("moved",), batch_tokens=7, device="cuda", threads=3, method=METHOD._replace(seed=2))
    assert same.origin == job.origin


def test_shards_of_seven_and_of_eight_bits_are_never_joined(fluent, text, tmp_path, monkeypatch):
    """The origin of a shard once had the precision alone: shards of two kinds of processors made one output."""
    jobs = {}
    for bits, largest in ((7, 64), (8, 127)):
        monkeypatch.setattr("transduce.bulk.translate_shards.largest_weight", lambda largest=largest: largest)
        jobs[bits] = TranslationJob.of([fluent], METHOD, precision="int8", batch_tokens=1, device="cpu", threads=1)
        assert jobs[bits].int8_bits == jobs[bits].origin["int8_bits"] == bits
    assert {name for name, value in jobs[7].origin.items() if value != jobs[8].origin[name]} == {"int8_bits"}
    out, recorder = tmp_path / "out", RecordingEngine()
    with pytest.raises(ValueError, match="int8 has 8 bits on this processor and 7 where the translation began"):
        bulk(jobs[7], text, out)
    monkeypatch.setattr("transduce.bulk.translate_shards.largest_weight", lambda: 64)
    stopped_bulk(jobs[7], text, out, after=3)
    monkeypatch.setattr("transduce.bulk.translate_shards.largest_weight", lambda: 127)
    bulk(jobs[8], text, out, recorder)
    assert recorder.first_lines == [0, 5, 10, 15]
    with pytest.raises(ValueError, match="of another int8_bits; move it away"):
        bulk(jobs[7], text, out)


def test_only_int8_has_bits(job):
    assert job.int8_bits is None
    assert int8_bits("bfloat16") is None
    assert int8_bits("int8") in (7, 8)


def test_shards_of_other_options_remain(job, text, translation, tmp_path):
    """A mistyped option costs no finished shards."""
    stopped_bulk(job, text, tmp_path / "out", after=3)
    stopped_bulk(job._replace(**INT8), text, tmp_path / "out", after=1)
    recorder = RecordingEngine()
    bulk(job, text, tmp_path / "out", recorder)
    assert recorder.first_lines == [15]
    assert (tmp_path / "out").read_text() == translation


def test_another_model_or_text_is_never_mixed_in(job, fluent, trained, text, translation, tmp_path):
    out = tmp_path / "out"
    stopped_bulk(with_models(job, [trained]), text, out, after=3)
    recorder = RecordingEngine()
    bulk(job, text, out, recorder)
    assert (recorder.first_lines, out.read_text()) == ([0, 5, 10, 15], translation)
    with pytest.raises(ValueError, match="of another model; move"):
        bulk(with_models(job, [trained]), text, out)
    changed = tmp_path / text.name
    content = text.read_bytes().split(b"\n")
    changed.write_bytes(b"\n".join([*content[:7], b"jay", *content[8:]]))
    with pytest.raises(ValueError, match="of another text; move"):
        bulk(job, changed, out)
    # Where one line was changed, only its shard is translated again.
    stopped_bulk(job, text, tmp_path / "new", after=3)
    bulk(job, changed, tmp_path / "new", recorder)
    assert recorder.first_lines == [5, 15]
    expected, actual = translation.split("\n"), (tmp_path / "new").read_text().split("\n")
    assert [place for place, line in enumerate(expected) if actual[place] != line] == [7]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_shard_is_translated_again(job, text, translation, tmp_path, damage):
    out = tmp_path / "out"
    stopped_bulk(job, text, out, after=3)
    path = shards(out)[1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"flip": content, "cut": content[:-3], "empty": b""}[damage])
    recorder = RecordingEngine()
    messages = bulk(job, text, out, recorder)
    assert len(recorder.first_lines) == 2
    assert messages[:2] == ["shards: 4; done before: 2; lines in all: 17", "damaged shards, translated again: 1"]
    assert out.read_text() == translation


def test_no_output_of_another_is_overwritten(job, text, tmp_path):
    out, recorder = tmp_path / "out", RecordingEngine()
    out.write_text("mine\n")
    with pytest.raises(ValueError, match="out already exists; move it away, or choose another --out"):
        bulk(job, text, out, recorder)
    assert (out.read_text(), recorder.first_lines) == ("mine\n", None)
    out.unlink()
    bulk(job, text, out)
    out.write_text("edited by hand\n")
    with pytest.raises(ValueError, match=r"out has .* move it away"):
        bulk(job, text, out)
    assert out.read_text() == "edited by hand\n"
    (record,) = (tmp_path / "out.bulk" / "made").glob("*.json")
    whole = record.read_text()
    for damaged in (whole[:40], "[]", "{}"):
        record.write_text(damaged)
        with pytest.raises(ValueError, match="out already exists; move it away, or choose another --out"):
            bulk(job, text, out)
    record.write_text(whole)
    # An output that was moved away is written again.
    out.unlink()
    bulk(job, text, out)
    assert out.exists()


def test_a_folder(job, text, translation, tmp_path):
    """Each file has its own numbers; an empty file stays empty; a file added later is translated alone."""
    folder, out, recorder = tmp_path / "in", tmp_path / "translated", RecordingEngine()
    folder.mkdir()
    shutil.copy(text, folder / "a")
    shutil.copy(text, folder / "b")
    (folder / "empty").write_bytes(b"")
    (folder / "line").write_bytes(b"\n")
    (folder / ".hidden").write_bytes(b"\xff")
    with pytest.raises(KeyboardInterrupt):
        bulk(job, folder, out, RecordingEngine(5))
    # An output is written as soon as its last shard is finished.
    assert sorted(path.name for path in out.iterdir()) == ["a", "empty"]
    bulk(job, folder, out, recorder)
    assert recorder.first_lines == [5, 10, 15, 0]
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "a": translation,
        "b": translation,
        "empty": "",
        "line": "\n",
    }
    (folder / "c").write_text("owl\n")
    messages = bulk(job, folder, out, recorder)
    assert (recorder.first_lines, messages[0]) == ([0], "shards: 1; done before: 0; lines in all: 1")
    (folder / "a").write_text("pig\n")
    with pytest.raises(ValueError, match="a already exists, of another text"):
        bulk(job, folder, out)


def test_numbers_begin_anew_in_each_file(job, text, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_text("owl\npig\nhen\n")
    bulk(
        job._replace(output_format=job.output_format._replace(json=True)),
        tmp_path / "in",
        tmp_path / "out",
        shard_lines=2,
    )
    for name in ("a", "b"):
        assert [json.loads(line)["line"] for line in (tmp_path / "out" / name).read_text().splitlines()] == [1, 2, 3]


def test_shards_of_the_same_lines_are_each_their_own(job, tmp_path):
    """Equal lines at other numbers have other draws."""
    (tmp_path / "text").write_text("owl pig hen\n" * 10)
    sampling_job = job._replace(output_format=OutputFormat(json=True), method=SAMPLED)
    bulk(sampling_job, tmp_path / "text", tmp_path / "out")
    records = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [record["line"] for record in records] == list(range(1, 11))
    bulk(sampling_job, tmp_path / "text", tmp_path / "whole", shard_lines=10)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def engine_of(translator):
    """Returns an engine that translates with one `ShardTranslator`."""
    return lambda job, shards: ((shard, translator.translate(shard)) for shard in shards)


def test_a_line_that_is_too_long_is_named_and_no_shard_is_lost(job, text, tmp_path, log_lines):
    worker = ShardTranslator(job)
    translator, lines = worker.translator, read_lines(str(text))
    translator.max_line_tokens = 8
    long = [place for place, tokens in enumerate(translator.source.encode(lines)) if len(tokens) > 8]
    assert 0 < len(long) < LINES
    shorter = ["" if place in long else line for place, line in enumerate(lines)]
    expected = "".join(f"{best[0].text}\n" for best in translator.translate_lines(shorter, METHOD, batch_tokens=1))
    for _ in range(2):  # a finished translation says so again
        with pytest.raises(RuntimeError, match=f"^{len(long)} lines could not be translated and are empty"):
            translate_texts(job, cut_texts(text, tmp_path / "out", 5), tmp_path / "out", engine_of(worker))
        assert (tmp_path / "out").read_text() == expected
        named = [re.findall(r"text\.en: line (\d+) has \d+ subwords, .* positions for 8;", line) for line in log_lines]
        assert [int(number) - 1 for [number] in filter(None, named)] == long
        log_lines.clear()


def test_a_line_of_megabytes_is_named_and_no_shard_is_lost(job, text, translation, tmp_path, monkeypatch, log_lines):
    """The tokeniser aborted the process; of a line of more than MAX_LINE_BYTES only the beginning is in memory."""
    monkeypatch.setattr("transduce.bulk.shards.MAX_LINE_BYTES", 1_000_001)
    lines = text.read_bytes().split(b"\n")
    for place, character in ((6, "ü"), (8, "owl "), (16, "🙂")):
        lines.insert(place, (character * 1_000_000).encode())
    long, out = tmp_path / "long.en", tmp_path / "out"
    long.write_bytes(b"\n".join(lines))
    (cut,) = cut_texts(long, out, 5)
    assert cut.sha256 == hashlib.sha256(long.read_bytes()).hexdigest()
    assert max(map(len, cut.shards[1].read())) < 1_000_002
    with pytest.raises(RuntimeError, match=r"^3 lines could not be translated and are empty in the output"):
        translate_texts(job, [cut], out, translate_locally)
    expected = translation.split("\n")
    for place in (6, 8, 16):
        expected.insert(place, "")
    assert out.read_text().split("\n") == expected
    numbers = [
        re.findall(r"long\.en: line (\d+) has over [\d,]+ characters, hence too many", line) for line in log_lines
    ]
    assert [int(number) for [number] in filter(None, numbers)] == [7, 9, 17]


def test_a_full_disk_is_named(job, text, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("transduce.storage.atomic.flush_to_disk", full)
    with pytest.raises(OSError, match=r"out\.bulk/shards/"):
        bulk(job, text, tmp_path / "out")


def test_the_message_says_that_a_prefix_is_too_long(fluent):
    translator = Translator.load(fluent)
    translator.max_line_tokens = 8
    assert list(translator.line_faults(["owl", "pig"], ["owl", "owl " * 20])) == [1]
    assert translator.line_faults(["owl"], ["owl " * 20])[0].startswith("must begin with a prefix that has ")


def test_a_signal_while_the_model_is_read_is_no_damage(fluent, monkeypatch):
    def interrupted(content):
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr("transduce.model_directory.model.load", interrupted)
    with pytest.raises(Interrupted):
        Translator.load(fluent)


def test_where_memory_is_short_lines_are_translated_one_by_one(job, text, translation, tmp_path, monkeypatch):
    search = TorchEngine.search

    def short(self, batch, *rest):
        if len(batch.sources) > 1 or len(batch.sources[0]) > 8:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
        return search(self, batch, *rest)

    monkeypatch.setattr(TorchEngine, "search", short)
    with pytest.raises(RuntimeError, match="lines could not be translated"):
        bulk(job._replace(batch_tokens=4096), text, tmp_path / "out")
    pairs = list(zip(translation.split("\n"), (tmp_path / "out").read_text().split("\n"), strict=True))
    assert {actual for line, actual in pairs if actual != line} == {""}
    assert sum(actual == line != "" for line, actual in pairs) > 5


def test_an_error_that_is_none_of_memory_is_no_empty_line(job, text, tmp_path, monkeypatch):
    monkeypatch.setattr(TorchEngine, "search", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bulk(job, text, tmp_path / "out")
    assert shards(tmp_path / "out") == []


def test_a_text_or_model_that_changes_meanwhile_is_refused(job, fluent, trained, text, tmp_path):
    changing = tmp_path / "changing"
    shutil.copy(text, changing)

    def changing_engine(job, shards):
        for number, shard in enumerate(shards):
            if number == 1:
                changing.write_text(changing.read_text().replace("e", "a"))
            yield from translate_locally(job, [shard])

    with pytest.raises(ValueError, match="changing was changed while it was translated"):
        bulk(job, changing, tmp_path / "out", changing_engine)
    model = shutil.copytree(fluent, tmp_path / "model", ignore=shutil.ignore_patterns("training"))
    moving = with_models(job, [model])
    shutil.rmtree(model)
    shutil.copytree(trained, model, ignore=shutil.ignore_patterns("training"))
    with pytest.raises(ValueError, match="was changed meanwhile"):
        bulk(moving, text, tmp_path / "other")


def test_two_at_once_are_refused(job, text, tmp_path):
    with (
        exclusive_lock(tmp_path / "out.bulk", "translation"),
        pytest.raises(ValueError, match=r"another translation is at work in .*out\.bulk"),
    ):
        bulk(job, text, tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["TEXT"], "Missing option '--out'"),
        (["--out", "OUT"], "name a file or a folder after the model"),
        (["RUN", "--out", "OUT"], "is a model; the last path is the text"),
        (["nowhere", "--out", "OUT"], "nowhere: no such file"),
        (["TEXT", "--out", "TEXT"], "already exists"),
        (["BINARY", "--out", "OUT", "--shard-lines", "2"], "binary: line 4 is not UTF-8"),
        (["MARKUP", "--out", "OUT", "--shard-lines", "2"], "markup: line 3 is markup"),
        (["EMPTY", "--out", "OUT"], "a folder without files"),
        (["NESTED", "--out", "OUT"], "deep is not a file"),
        (["NESTED/deep", "--out", "TEXT"], "is a file; the text is a folder"),
        (["NESTED/deep", "--out", "NESTED/deep/de"], "would be taken for one of its texts"),
        (["PIPE", "--out", "OUT"], "a pipe or a device; a corpus is read twice"),
        (["TEXT", "--out", "OUT", "--device", "tpu"], "choose auto, cpu or cuda"),
        (["TEXT", "--out", "."], "--out .: name the file or the folder itself"),
    ],
)
def test_refusals(fluent, text, tmp_path, command, arguments, message):
    (tmp_path / "binary").write_bytes(b"a\nb\nc\n\xff\n")
    (tmp_path / "markup").write_bytes(b"a\nb\n<seg id=1>\n")
    os.mkfifo(tmp_path / "pipe")
    for name in ("empty", "nested/empty", "nested/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "nested" / "deep" / "a").write_text("owl\n")
    paths = {"TEXT": str(text), "RUN": str(fluent), "OUT": str(tmp_path / "out")}
    paths |= {name.upper(): str(tmp_path / name) for name in ("binary", "markup", "pipe", "empty", "nested")}
    arguments = [re.sub("^[A-Z]+", lambda match: paths[match[0]], argument) for argument in arguments]
    before = text.read_bytes()
    code, stdout, stderr = command("translate-corpus", fluent, *arguments)
    assert (code, stdout) == (2, "")
    assert message in stderr
    assert text.read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written(job, text, tmp_path):
    (tmp_path / "locked").write_text("")
    with pytest.raises(OSError, match="locked"):
        bulk(job, text, tmp_path / "locked" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["locked"]


def test_time_left_is_reported_from_the_second_shard_on(job, text, tmp_path, monkeypatch):
    """The time of the first shard, which includes loading the model, is not counted."""
    now, arrivals, save = [0], iter([100, 120, 140, 150]), translate_shards.FinishedShards.save

    def arriving(*arguments):
        now[0] = next(arrivals)
        save(*arguments)

    monkeypatch.setattr(translate_shards.FinishedShards, "save", arriving)
    for module in (translate_shards, progress):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    messages = bulk(job, text, tmp_path / "out")
    assert messages[1:] == [
        "2 of 4 shards, 0.2 lines/s, 0:00:28 left",
        "3 of 4 shards, 0.2 lines/s, 0:00:08 left",
        "4 of 4 shards, 17 lines, in 0:02:30",
    ]


def test_a_line_that_cannot_be_aligned_is_named_and_no_shard_is_lost(job, text, tmp_path, monkeypatch, log_lines):
    explain, longest = Translator.explain, max(map(len, read_lines(str(text))))

    def short(self, source, *rest):
        if len(source) == longest:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
        return explain(self, source, *rest)

    monkeypatch.setattr(Translator, "explain", short)
    aligned = job._replace(output_format=OutputFormat(alignments=True))
    with pytest.raises(RuntimeError, match="lines could not be translated"):
        translate_texts(aligned, cut_texts(text, tmp_path / "out", 5), tmp_path / "out", translate_locally)
    assert any("is too long to be aligned" in line for line in log_lines)
    lines = (tmp_path / "out").read_text().split("\n")
    assert 0 < sum(line == "\t" for line in lines) < sum(line.count("\t") for line in lines)


def test_an_empty_line_is_never_too_long(job, tmp_path):
    worker = ShardTranslator(job)
    worker.translator.max_line_tokens = 3
    assert worker.translator.line_faults([" " * 300, "owl"], ["an owl " * 9, ""]) == {}


def test_a_link_remains_a_link(fluent, text, translation, tmp_path, command):
    (tmp_path / "link").symlink_to(tmp_path / "out")
    code, _, _ = command("translate-corpus", fluent, text, "--out", tmp_path / "link")
    assert code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out").read_text() == translation
