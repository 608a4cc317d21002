"""Synthetic pairs: both orders, what is left out, gzipped text, resuming, and the recipe that reads them."""

import gzip
import json
import random

import pytest

from micro_run import WORDS
from transduce.bulk.finished_shards import PairFilter
from transduce.bulk.translate_shards import ShardTranslator
from transduce.recipe.recipe import load
from transduce.storage.locks import exclusive_lock
from transduce.translation.translator import Translator

BACKWARD = ["--pairs", "backward"]


@pytest.fixture(scope="module")
def mono(tmp_path_factory):
    """Lines, among them an empty one, one twice, one with a tab, and one that is too long."""
    generator = random.Random(4)
    lines = [" ".join(generator.choice(WORDS) for _ in range(generator.randint(2, 6))) for _ in range(14)]
    lines[3], lines[8], lines[11], lines[13] = "", lines[2], "owl\tpig", "ä " * 5000
    path = tmp_path_factory.mktemp("mono") / "mono.en"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def expected(model, mono, forward, **options):
    """The pairs, made line by line."""
    lines = [line for line in mono.read_text("utf-8").split("\n") if line.strip() and len(line) < 1000]
    pairs = [
        (str(one), line) for one, line in zip(Translator.load(model).translate(lines, **options), lines, strict=True)
    ]
    pairs = [pair[::-1] if forward else pair for pair in pairs if pair[0].strip()]
    return "".join(f"{a}\t{b}\n".replace("owl\tpig", "owl pig") for a, b in dict.fromkeys(pairs))


def test_pairs_are_searched_as_translate_does(fluent, mono, tmp_path, command):
    out = tmp_path / "out.tsv"
    code, _, error = command(
        "translate-corpus", fluent, mono, *BACKWARD, "--out", out, "--length-penalty", 0, "--beam", 3
    )
    options = {"length_penalty": 0, "beam": 3}
    assert (code, out.read_text("utf-8")) == (0, expected(fluent, mono, False, **options)), error


@pytest.mark.parametrize("forward", [False, True])
def test_pairs_have_the_translation_as_source_or_as_target(fluent, mono, tmp_path, command, forward):
    out, options = (
        tmp_path / "out.tsv",
        ["--greedy", "--shard-lines", 4, "--pairs", "forward" if forward else "backward"],
    )
    code, _, error = command("translate-corpus", fluent, mono, "--out", out, *options)
    assert (code, out.read_text("utf-8")) == (0, expected(fluent, mono, forward, greedy=True))
    assert "line 14 has " in error
    assert "11 pairs; left out: 2 lines without text or translation, 1 duplicates" in error
    again = command("translate-corpus", fluent, mono, "--out", out, *options)
    assert again[0] == 0
    assert "out.tsv is finished" in again[2]
    assert "11 pairs; left out: 2 lines" in again[2]


def test_a_gzipped_text_gives_the_same_and_leaves_no_copy(fluent, mono, tmp_path, command):
    packed, out = tmp_path / "mono.en.gz", tmp_path / "out.tsv"
    packed.write_bytes(gzip.compress(mono.read_bytes()))
    sampling = ["--temperature", 0.5, "--seed", 7]
    assert command("translate-corpus", fluent, packed, *BACKWARD, "--out", out, *sampling)[0] == 0
    assert command("translate-corpus", fluent, mono, *BACKWARD, "--out", tmp_path / "plain.tsv", *sampling)[0] == 0
    assert out.read_text("utf-8") == (tmp_path / "plain.tsv").read_text("utf-8")
    assert [path.name for path in (tmp_path / "out.tsv.bulk").iterdir()] == ["made"]
    packed.write_bytes(packed.read_bytes()[:-9])
    code, _, error = command("translate-corpus", fluent, packed, *BACKWARD, "--out", tmp_path / "damaged.tsv")
    assert (code, "damaged gzip file" in error) == (2, True)


def test_a_gzipped_text_is_unpacked_by_one_command_and_after_all_checks(fluent, mono, tmp_path, command, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    packed, out = tmp_path / "mono.en.gz", tmp_path / "out.tsv"
    packed.write_bytes(gzip.compress(mono.read_bytes()))
    unpacked = tmp_path / "out.tsv.bulk" / "unpacked"
    with exclusive_lock(unpacked, "translation"):
        code, _, error = command("translate-corpus", fluent, packed, *BACKWARD, "--out", out)
    assert (code, f"another translation is at work in {unpacked}" in error) == (2, True)
    unpacked.rmdir()
    with monkeypatch.context() as patched:
        patched.setattr(ShardTranslator, "translate", stop)
        assert command("translate-corpus", fluent, packed, *BACKWARD, "--out", out)[0] == 130
    assert not unpacked.exists()
    monkeypatch.setattr("transduce.bulk.shards.read_byte_lines", None)
    for options, message in (
        (["--out", out, "--to", "fr"], "one direction and translates into de"),
        (["--out", "."], "--out .: name the file or the folder itself"),
        (["--out", tmp_path / ("long" * 60)], "choose a shorter name"),
    ):
        code, _, error = command("translate-corpus", fluent, packed, *BACKWARD, *options)
        assert (code, message in error) == (2, True), error


def test_a_stopped_command_resumes(fluent, mono, tmp_path, command, monkeypatch):
    out, translate, done = tmp_path / "out.tsv", ShardTranslator.translate, []

    def stop_after_two(self, shard):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(shard)
        return translate(self, shard)

    arguments = ["translate-corpus", fluent, mono, *BACKWARD, "--out", out, "--greedy", "--shard-lines", 4]
    monkeypatch.setattr(ShardTranslator, "translate", stop_after_two)
    assert command(*arguments)[0] == 130
    monkeypatch.setattr(ShardTranslator, "translate", translate)
    code, _, error = command(*arguments)
    assert (code, "done before: 2" in error) == (0, True)
    assert out.read_text("utf-8") == expected(fluent, mono, False, greedy=True)


def test_other_options_parsers_folders_and_streams_are_refused(fluent, parser, mono, tmp_path, command):
    out, new = tmp_path / "out.tsv", tmp_path / "new.tsv"
    assert command("translate-corpus", fluent, mono, *BACKWARD, "--out", out, "--greedy")[0] == 0
    for arguments, message in (
        ([fluent, mono, *BACKWARD, "--out", out], "another greedy"),
        ([fluent, mono, "--out", out, "--greedy", "--pairs", "forward"], "another output_format"),
        ([parser, mono, *BACKWARD, "--out", new], "parses and does not translate"),
        ([fluent, tmp_path, *BACKWARD, "--out", new], "is a folder: name one file"),
        ([fluent, tmp_path / "none", *BACKWARD, "--out", new], "none"),
        (
            [fluent, mono, *BACKWARD, "--out", new, "--to", "fr"],
            "one direction and translates into de",
        ),
        (
            [fluent, mono, *BACKWARD, "--out", new, "--greedy", "--beam", 2],
            "--beam 2: it is for a beam search",
        ),
    ):
        code, _, error = command("translate-corpus", *arguments)
        assert (code, message in error) == (2, True), (arguments, error)
    assert out.read_text("utf-8") == expected(fluent, mono, False, greedy=True)


def test_a_recipe_reads_the_pairs_under_a_tag(fluent, mono, micro, tmp_path, command):
    out = tmp_path / "out.tsv"
    assert command("translate-corpus", fluent, mono, *BACKWARD, "--out", out, "--greedy")[0] == 0
    corpora = f"data.train=[{{source: {micro}/train.en, target: {micro}/train.de}}, {{tsv: {out}, tag: synthetic}}]"
    changes = [corpora, "training.steps=2", "training.validate_every=2", "training.save_every=2"]
    assert load(micro / "recipe.yaml", changes).data.source_tags == ["tag:synthetic"]
    options = [word for change in changes for word in ("--set", change)]
    assert command("train", micro / "recipe.yaml", "--out", tmp_path / "run", *options)[0] == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["tags"] == [None, "synthetic"]
    for tag, code in ((["--tag", "synthetic"], 0), ([], 0), (["--tag", "news"], 2)):
        assert command("translate", tmp_path / "run", micro / "test.en", *tag)[0] == code


def test_the_filter_counts_what_it_leaves_out():
    pairs = PairFilter()
    first = pairs("a\tb\n\tb\na\t\n \t \nsame\tsame \na\tb\nb\ta\n")
    assert first == "a\tb\nb\ta\n"
    assert pairs("a\tb\nc\td\u2028e\r\n") == "c\td\u2028e\r\n"
    assert pairs("") == ""
    assert pairs.counts == {"pairs": 3, "lines without text or translation": 3, "copies": 1, "duplicates": 2}
