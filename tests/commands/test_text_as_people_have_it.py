"""Text as people have it, through the commands: white space in terms, prefixes of empty lines, standard output, TER."""

import gzip

import pytest

from micro_run import forked


@pytest.mark.parametrize("space", ["\u00a0", "  ", "\t", "\u202f"])
def test_a_term_is_found_across_white_space_of_every_kind(fluent, tmp_path, space):
    (tmp_path / "terms.tsv").write_text("owl pig\tUhu\n", "utf-8")
    lines = f"cat owl{space}pig\ncat owl pig\n"
    ended = forked("translate", fluent, "--glossary", tmp_path / "terms.tsv", given=lines.encode())
    first, second = ended.out.splitlines()
    assert first == second
    assert "Uhu" in first
    assert "2 of 2 terms honoured" in ended.error


def test_the_prefix_of_a_line_without_text_is_named(fluent, tmp_path):
    (tmp_path / "prefix").write_text("tac\nHallo\n", "utf-8")
    ended = forked("translate", fluent, "--prefix", tmp_path / "prefix", given=b"cat\n\n")
    assert ended.code == 2
    assert "line 2 has no text to translate, and its prefix is 'Hallo': empty it" in ended.error


def test_a_dash_is_standard_output(fluent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert forked("translate", fluent, "--out", "-", given=b"cat\n").out.strip()
    assert list(tmp_path.iterdir()) == []


def test_compressed_text_is_the_same_text_in_lines_and_in_shards(fluent, tmp_path):
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"cat owl\n\xc2\xa0pig\n"))
    lines = forked("translate", fluent, tmp_path / "in.gz").out
    assert forked("translate-corpus", fluent, tmp_path / "in.gz", "--out", tmp_path / "out").code == 0
    assert (tmp_path / "out").read_text("utf-8") == lines


def test_several_sentences_on_a_line_are_one_sentence_in_every_command_of_lines(fluent, tmp_path):
    (tmp_path / "two.txt").write_text("cat owl. dog pig.\n", "utf-8")
    lines = forked("translate", fluent, tmp_path / "two.txt").out
    scored = forked("translate", fluent, tmp_path / "two.txt", "--scores").out
    assert forked("translate", fluent, given=b"cat owl. dog pig.\n").out == lines
    assert scored.split("\t")[1] == lines.rstrip("\n")


def test_ter_counts_chinese_characters(tmp_path):
    (tmp_path / "ref").write_text("一个男人在街上骑自行车。\n", "utf-8")
    (tmp_path / "out").write_text("一个男人在路上骑自行车。\n", "utf-8")
    options = ("--reference", tmp_path / "ref", "--language", "zh", "--metric", "ter")
    name, score, signature = forked("measure", *options, tmp_path / "out").out.split()
    assert (name, signature.split("|")[5]) == ("ter", "asian:yes")
    assert float(score) == pytest.approx(100 / 12, abs=0.01)
