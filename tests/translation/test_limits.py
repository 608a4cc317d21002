"""What is refused, with place and remedy: lines too long, memory, full disks, forks, numbers that are not finite."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from transduce.bulk.translate_shards import TranslationJob
from transduce.commands import main
from transduce.measure.scoring import Score
from transduce.model_directory.model import Model
from transduce.runtime.json_text import json_text
from transduce.search.beam import Decoding
from transduce.text.subwords import Subwords
from transduce.translation import batching
from transduce.translation.batching import MAX_LINE_TOKENS, LineTooLargeError, encode_lines
from transduce.translation.engine import TorchEngine
from transduce.translation.output_format import OutputFormat
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

OUT_OF_MEMORY = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."


@pytest.fixture(scope="module")
def translator(fluent):
    return Translator.load(fluent)


@pytest.fixture
def command(capfd):
    """Runs a command line in this process; returns its exit code and standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return ended.value.code, capfd.readouterr().err

    return run


def entries(translator, line):
    """Each way into a translator, with a first text that is short and a second that is `line`."""
    return {
        "": lambda: translator.translate(["owl", line]),
        " of the prefixes": lambda: translator.translate(["owl", "owl"], prefix=["pig", line]),
        " of the source": lambda: translator.score(["owl", line], ["owl", "pig"]),
        " of the target": lambda: translator.score(["owl", "pig"], ["owl", line]),
        " of the source, explained": lambda: translator.explain(line, "owl"),
        " of the target, explained": lambda: translator.explain("owl", line),
    }


ENTRIES = list(entries(None, ""))


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_line_of_megabytes_is_refused_before_it_is_encoded(translator, monkeypatch, entry):
    """A line of 20 MB once took 4.8 GB, and one of 50 MB aborted the process where memory was short."""
    encode, sizes = Subwords.encode, []

    def counted(self, lines):
        sizes.append(sum(map(len, lines)))
        return encode(self, lines)

    monkeypatch.setattr(Subwords, "encode", counted)
    side = entry.removesuffix(", explained")
    place = 1 if "explained" in entry else 2
    message = (
        rf"line {place}{side} has over [\d,]+ characters, hence too many subwords, more than 4,096, .*; split the line"
    )
    with pytest.raises(ValueError, match=message):
        entries(translator, "owl " * 1_000_000)[entry]()
    assert sum(sizes) < 100


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_memory_of_a_line_of_too_many_subwords_is_told_before_the_search(translator, monkeypatch, entry):
    monkeypatch.setattr(TorchEngine, "search", None)
    line = "x" * 9900
    memory = 2 * 4 * 3 * len(translator.source.encode([line])[0]) ** 2 / 1e9  # of 3 heads, in float32
    with pytest.raises(
        ValueError, match=rf"subwords, more than 4,096, and would need {memory:.1f} GB of memory; split"
    ):
        entries(translator, line)[entry]()


def test_bulk_translation_has_the_same_bounds(translator):
    faults = translator.line_faults(["owl", "owl " * 1_000_000, "x" * 9900, "pig"], ["", "", "", "owl " * 1_000_000])
    assert list(faults) == [3, 1, 2]
    assert faults[1].startswith("has over ")
    assert "GB of memory" in faults[2]
    assert faults[3].startswith("must begin with a prefix that has over ")


def test_no_int8_line_is_said_to_need_memory(fluent):
    with pytest.raises(ValueError, match=r"has [\d,]+ subwords, more than 4,096; split the line"):
        Translator.load(fluent, precision="int8").translate("x" * 9900)


def test_lines_are_encoded_in_portions(translator, monkeypatch):
    lines = ["owl pig", "", "x" * 50, "the owl saw a mole", "gnu"] * 3
    expected = translator.source.encode(lines)
    encode, sizes = Subwords.encode, []

    def counted(self, portion):
        sizes.append(sum(map(len, portion)))
        return encode(self, portion)

    monkeypatch.setattr(Subwords, "encode", counted)
    monkeypatch.setattr(batching, "PORTION", 30)
    assert encode_lines(lines, translator.source, MAX_LINE_TOKENS, 2) == expected
    assert len(sizes) > 3
    assert max(sizes) == 50
    assert encode_lines([], translator.source, MAX_LINE_TOKENS, 2) == []


@pytest.mark.parametrize("error", [RuntimeError(OUT_OF_MEMORY), MemoryError()], ids=["torch", "Python"])
def test_where_memory_is_short_pairs_are_scored_one_by_one_and_a_line_is_named(translator, monkeypatch, error):
    score, sources, targets = TorchEngine.score, ["owl", "cat dog", "pig"], ["lwo", "tac god " * 9, "gip"]
    expected = translator.score(sources[::2], targets[::2])

    def short(self, pairs, check):
        if len(pairs) > 1 or len(pairs[0][1]) > 10:
            raise error
        return score(self, pairs, check)

    monkeypatch.setattr(TorchEngine, "score", short)
    assert translator.score(sources[::2], targets[::2]) == pytest.approx(expected)
    message = r"line 2 has \d+ source and \d+ target subwords, too many for the memory here; split the line"
    with pytest.raises(RuntimeError, match=message):
        translator.score(sources, targets)


@pytest.mark.parametrize("error", [RuntimeError(OUT_OF_MEMORY), MemoryError()], ids=["torch", "Python"])
def test_refused_memory_names_the_line(translator, fluent, tmp_path, monkeypatch, command, error):
    def refused(*_):
        raise error

    (tmp_path / "text").write_text("\nowl\n")
    with monkeypatch.context() as patch:
        patch.setattr(TorchEngine, "search", refused)
        code, said = command("translate", fluent, tmp_path / "text")
        assert (code, "transduce: line 2 has 1 subwords, too many for the memory here; split" in said) == (1, True), (
            said
        )
    monkeypatch.setattr(TorchEngine, "attention_weights", refused)
    code, said = command("translate", fluent, tmp_path / "text", "--alignments")
    assert (code, "transduce: line 2 is too long to be aligned in the memory here; split the line" in said) == (1, True)
    code, said = command("draw", fluent, "owl", "--target", "lwo", "--out", tmp_path / "picture.html")
    assert (code, "whose attention weights are too many for the memory here" in said) == (1, True), said
    with pytest.raises(LineTooLargeError):
        translator.explain("owl")


@pytest.mark.parametrize(
    "arguments", ["translate RUN TEXT", "score RUN --source TEXT --target TEXT", "info tiny --json"]
)
def test_a_full_disk_behind_standard_output_is_named(fluent, tmp_path, monkeypatch, command, arguments):
    (tmp_path / "text").write_text("owl\n")
    with Path(os.devnull).open() as _, open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        code, said = command(*arguments.replace("RUN", str(fluent)).replace("TEXT", str(tmp_path / "text")).split())
    assert (code, "transduce: standard output: no space left on device" in said) == (2, True), said


@pytest.mark.parametrize("arguments", ["translate RUN TEXT --out", "draw RUN owl --out"])
def test_a_full_disk_names_the_output(fluent, tmp_path, command, arguments):
    (tmp_path / "text").write_text("owl\n")
    out = tmp_path / "out.html"
    out.symlink_to("/dev/full")
    code, said = command(*arguments.replace("RUN", str(fluent)).replace("TEXT", str(tmp_path / "text")).split(), out)
    assert (code, f"transduce: {out}: no space left on device" in said) == (2, True), said


def strict(text):
    """Parses JSON; refuses NaN and infinities, which are none."""
    return json.loads(text, parse_constant=pytest.fail)


def test_numbers_that_are_not_finite_are_null_in_json(translator):
    best = [Translation("a", math.nan, -math.inf, [5])]
    (line,) = OutputFormat(json=True).lines(translator, ["owl"], [best])
    assert strict(line)["translations"] == [{"text": "a", "log_probability": None, "score": None}]
    values = {"a": [math.inf, 1.5, (2, np.float64("nan"))], "b": Score(math.nan, "nrefs:1", None, None)._asdict()}
    assert strict(json_text(values)) == {
        "a": [None, 1.5, [2, None]],
        "b": {"score": None, "signature": "nrefs:1", "low": None, "high": None},
    }


def test_every_command_prints_json_by_the_same_function():
    folder = Path(batching.__file__).parents[1] / "commands"
    assert [path.name for path in sorted(folder.glob("*.py")) if "json.dump" in path.read_text("utf-8")] == []


def test_a_score_that_is_not_finite_is_refused(fluent):
    model = Model.read(fluent)
    with torch.no_grad():
        next(model.module.parameters())[7:] = math.nan
    broken = Translator.of_models([model.module.eval()], model.source, model.target, model.config.decoding)
    with pytest.raises(RuntimeError, match="line 1: the model computes no finite log-probability"):
        broken.score(["owl"], ["lwo"])


def test_every_entry_refuses_an_unknown_precision(translator, fluent):
    for entry in (
        lambda: Translator.load(fluent, precision="int4"),
        lambda: Translator.of_models(translator.models, translator.source, translator.target, Decoding(), "int4"),
        lambda: TranslationJob.of([fluent], SearchMethod(Decoding()), precision="int4"),
    ):
        with pytest.raises(ValueError, match="precision 'int4' is unknown: choose float32, bfloat16, int8"):
            entry()


FORKED = """
import os, sys, torch
from transduce import Translator

threads, precision = int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(threads)
translator = Translator.load(sys.argv[1], precision=precision)
lines = ["the owl saw a mole and an ibis near the lark"] * 50
expected = translator.translate(lines, greedy=True)
if child := os.fork():
    _, status = os.waitpid(child, 0)
    print("status", status)
else:
    try:
        assert translator.translate(lines, greedy=True) == expected
        print("translated", flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("threads", "precision", "said"),
    [
        (1, "float32", "translated"),
        pytest.param(2, "float32", "start processes by multiprocessing's spawn", marks=pytest.mark.slow),
        pytest.param(1, "int8", "start processes by multiprocessing's spawn", marks=pytest.mark.slow),
    ],
)
def test_a_forked_process_translates_or_says_why_not(fluent, threads, precision, said):
    """A child in int8 was killed; a child in float32 with two threads hung."""
    command = [sys.executable, "-c", FORKED, str(fluent), str(threads), precision]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "status 0" in ended.stdout, ended
    assert said in ended.stdout, ended


@pytest.mark.parametrize(
    ("environment", "capacity"),
    [({}, True), ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "7"}, "7"), ({"DNNL_PRIMITIVE_CACHE_CAPACITY": "7"}, None)],
)
def test_the_cache_of_int8_products_is_bounded_unless_the_user_says(environment, capacity):
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY")
    clean = {name: value for name, value in os.environ.items() if name not in names} | environment
    code = f"import transduce, os; print(os.environ.get({names[0]!r}))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean, check=True).stdout
    assert printed.strip().isdigit() if capacity is True else printed.strip() == str(capacity)
