"""The demo, of two hundred pairs and for half a second: everything that it promises is there."""

import itertools
import re
import shlex

import pytest

from transduce.commands import main
from transduce.demo import RECIPE, demo
from transduce.embedded import splits
from transduce.embedded.baselines import translation_memory, word_by_word
from transduce.measure import scores
from transduce.trainer.train import TrainOptions
from transduce.translation.translator import Translator

SIZES = {"train": 200, "validation": 4, "test": 8, "novel": 7}
SYSTEMS = ["model", "translation memory", "word by word"]


@pytest.fixture
def split(monkeypatch):
    """The splits, small, and all of one draw: making the grammar of each takes longer than the rest."""
    drawn = iter(splits.split("test", count=220))
    small = {name: list(itertools.islice(drawn, size)) for name, size in SIZES.items()}
    for place in ("transduce.embedded", "transduce.demo"):
        monkeypatch.setattr(f"{place}.split", small.__getitem__)
    model = {"preset": "tiny", "encoder_layers": 1, "decoder_layers": 2, "d_model": 32, "norm": "pre"}
    for section, values in (("model", model), ("decoding", {"extra_length": 0})):
        monkeypatch.setitem(RECIPE, section, values)
    return small.__getitem__


def test_all_that_the_demo_promises(tmp_path, split, monkeypatch, capsys):
    out, said = tmp_path / "demo", []
    found = demo(out, 0.01, TrainOptions("cpu"), said.append)
    text = "\n".join(said)

    translator, training = Translator.load(out), split("train")
    for name in ("test", "novel"):
        assert list(found[name]) == SYSTEMS
        sources, references = ([getattr(one, side) for one in split(name)] for side in ("source", "target"))
        assert len(sources) == SIZES[name]
        outputs = [
            [translation.text for translation in translator.translate(sources)],
            translation_memory(training, sources),
            word_by_word(training, sources),
        ]
        for system, lines in zip(SYSTEMS, outputs, strict=True):
            assert found[name][system] == scores(lines, [references])["bleu"]
    assert f"sacreBLEU ({found['test']['model'].signature})\n" in text

    rows = re.findall(r"^(\S.*\S|) {2,}(\S.*?) {2,}(\S.*)$", text, flags=re.MULTILINE)
    figures = [(system, *(f"{found[name][system].score:.2f}" for name in ("test", "novel"))) for system in SYSTEMS]
    assert rows[-4:] == [("", "unseen test", "novel pairs"), *figures]
    assert len({score for _, *both in figures[1:] for score in both}) == 4  # else columns could change places

    shown = [(one.source, translator.translate(one.source).text) for one in split("novel")[:5]]
    assert [line for line in said if line.endswith("\n") and line.startswith("  ")] == [
        f"  {source}\n  {written}\n" for source, written in shown
    ]

    assert f"a picture of its attention: {out / 'attention.html'}\n" in text
    page = (out / "attention.html").read_text("utf-8")
    assert page.startswith("<!")
    sentence = split("test")[0].source
    assert sentence in page

    said_last, (echo, given, pipe, *command) = said[-2], shlex.split(said[-1])
    assert re.fullmatch(r"all of it in \d+\.\d minutes; now type", said_last)
    assert (echo, given, pipe, command[0]) == ("echo", sentence, "|", "transduce")
    (tmp_path / "input.txt").write_text(f"{given}\n")
    with (tmp_path / "input.txt").open() as text_in:
        monkeypatch.setattr("sys.stdin", text_in)
        with pytest.raises(SystemExit) as leaving:
            main(command[1:])
    assert (leaving.value.code, capsys.readouterr().out) == (0, f"{translator.translate(sentence).text}\n")


def test_the_size_that_the_demo_tells(tmp_path, monkeypatch):
    """It is written into what is said before anything is made."""
    monkeypatch.setattr("transduce.demo.run_training", lambda *arguments: 1 / 0)
    said = []
    with pytest.raises(ZeroDivisionError):
        demo(tmp_path, 2.5, TrainOptions(), said.append)
    assert said == [f"training for 2.5 minutes on {splits.SPLITS['train']:,} embedded sentence pairs, into {tmp_path}"]


def test_the_verb_hands_on_what_it_is_told(tmp_path, monkeypatch, capsys):
    given = []
    monkeypatch.setattr("transduce.demo.demo", lambda *arguments: given.extend(arguments))
    with pytest.raises(SystemExit) as leaving:
        main(["demo", "--minutes", "0.5", "--out", str(tmp_path), "--device", "cpu", "--threads", "1"])
    *rest, say = given
    assert (leaving.value.code, rest) == (0, [tmp_path, 0.5, TrainOptions("cpu", 1)])
    say("a line")
    assert capsys.readouterr().out == "a line\n"
