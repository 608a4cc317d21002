"""The demo on two hundred pairs for half a second."""

import itertools
import logging
import re
import shlex

import pytest

from log_records import logged_lines
from transduce.commands import main
from transduce.demo import TRANSLATING, demo_translation
from transduce.embedded import splits
from transduce.embedded.baselines import translation_memory, word_by_word
from transduce.measure.scoring import scores
from transduce.run.train import TrainOptions
from transduce.translation.translator import Translator

SIZES = {"train": 200, "validation": 4, "test": 8, "novel": 7}
SYSTEMS = ["model", "translation memory", "word by word"]


@pytest.fixture
def split(monkeypatch):
    """Small splits, all of one draw, because each draw builds the grammar, which takes longer than the rest."""
    drawn = iter(splits.split("test", count=220))
    small = {name: list(itertools.islice(drawn, size)) for name, size in SIZES.items()}
    for place in ("transduce.embedded", "transduce.demo"):
        monkeypatch.setattr(f"{place}.split", small.__getitem__)
    model = {"preset": "tiny", "encoder_layers": 1, "decoder_layers": 2, "d_model": 32, "norm": "pre"}
    for section, values in (("model", model), ("decoding", {"extra_length": 0})):
        monkeypatch.setitem(TRANSLATING, section, values)
    return small.__getitem__


def test_the_demo_prints_scores_translations_a_picture_and_a_command(tmp_path, split, monkeypatch, capsys):
    out = tmp_path / "demo"
    with logged_lines() as printed:
        results = demo_translation(out, 0.01, TrainOptions("cpu"))
    text = "\n".join(printed)

    translator, training = Translator.load(out), split("train")
    for name in ("test", "novel"):
        assert list(results[name]) == SYSTEMS
        sources, references = ([getattr(example, side) for example in split(name)] for side in ("source", "target"))
        assert len(sources) == SIZES[name]
        outputs = [
            translator.translate(sources),
            translation_memory(training, sources),
            word_by_word(training, sources),
        ]
        for system, lines in zip(SYSTEMS, outputs, strict=True):
            assert results[name][system] == scores(lines, [references])["bleu"]
    assert f"sacreBLEU ({results['test']['model'].signature})\n" in text

    rows = re.findall(r"^(\S.*\S|) {2,}(\S.*?) {2,}(\S.*)$", text, flags=re.MULTILINE)
    figures = [(system, *(f"{results[name][system].score:.2f}" for name in ("test", "novel"))) for system in SYSTEMS]
    assert rows[-4:] == [("", "unseen test", "novel pairs"), *figures]
    assert len({score for _, *row in figures[1:] for score in row}) == 4  # else columns could change places

    shown = [(example.source, translator.translate(example.source)) for example in split("novel")[:5]]
    assert [line for line in printed if line.endswith("\n") and line.startswith("  ")] == [
        f"  {source}\n  {translation}\n" for source, translation in shown
    ]

    assert f"picture of the attention: {out / 'attention.html'}\n" in text
    page = (out / "attention.html").read_text("utf-8")
    assert page.startswith("<!")
    sentence = split("test")[0].source
    assert sentence in page

    duration, (echo, text_in, pipe, *command) = printed[-2], shlex.split(printed[-1])
    assert re.fullmatch(r"done in \d+\.\d minutes; now type", duration)
    assert (echo, text_in, pipe, command[0]) == ("echo", sentence, "|", "transduce")
    (tmp_path / "input.txt").write_text(f"{text_in}\n")
    with (tmp_path / "input.txt").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(SystemExit) as leaving:
            main(command[1:])
    assert (leaving.value.code, capsys.readouterr().out) == (0, f"{translator.translate(sentence)}\n")


def test_the_demo_names_the_size_of_its_corpus(tmp_path, monkeypatch, log_lines):
    """The number is a constant, because it is printed before the corpus is made."""
    monkeypatch.setattr("transduce.demo.run_training", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        demo_translation(tmp_path, 2.5, TrainOptions())
    pairs = f"{splits.SPLITS['train']:,} embedded sentence pairs"
    assert log_lines == [f"training for 2.5 minutes on {pairs}, into {tmp_path}"]


def test_the_command_passes_its_options_on(tmp_path, monkeypatch, capsys):
    passed = []

    def demo(*arguments):
        passed.extend(arguments)
        logging.getLogger("transduce").info("a line")

    monkeypatch.setattr("transduce.demo.demo_translation", demo)
    with pytest.raises(SystemExit) as leaving:
        main(["demo", "--minutes", "0.5", "--out", str(tmp_path), "--device", "cpu", "--threads", "1"])
    assert (leaving.value.code, passed) == (0, [tmp_path, 0.5, TrainOptions("cpu", 1)])
    assert capsys.readouterr().out == "a line\n"
