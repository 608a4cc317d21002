"""Table 4 on a few trees, for seconds."""

import random
import re
import shutil

import pytest

from log_records import logged_lines
from parsing_run import tree
from transduce.paper import table4
from transduce.paper.experiment_scales import ExperimentOptions, treebank_of_scale
from transduce.parsing.trees import parse_tree, words_of
from transduce.run.train import TrainOptions

PAPER = {
    ("Transformer (4 layers)", "WSJ only, discriminative"): 91.3,
    ("Transformer (4 layers)", "semi-supervised"): 92.7,
    ("Dyer et al. (2016)", "generative"): 93.3,
    ("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative"): 88.3,
}
SMALL = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "feed_forward": {"d_ff": 16}}
ATTENTION = {side: {"heads": 2, "d_k": 8, "d_v": 8} for side in ("mixer", "cross")}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with a treebank and raw text where CRAFT and Europarl are looked for, and models that train fast."""
    drawn = random.Random(1)
    for name, count in (("train", 120), ("dev", 12)):
        folder = tmp_path / "craft-treebank" / name
        folder.mkdir(parents=True)
        (folder / "one.tree").write_text("".join(f"{tree(drawn)}\n" for _ in range(count)))
    (tmp_path / "europarl-en-de").mkdir()
    raw = "".join(" ".join(words_of(parse_tree(tree(drawn)))) + "\n" for _ in range(30))
    (tmp_path / "europarl-en-de" / "europarl.20k.en").write_text(raw)
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    monkeypatch.setitem(table4.ROWS[0].model, "d_model", 16)
    treebank = treebank_of_scale("small")
    small = treebank._replace(
        model={**treebank.model, **SMALL, **ATTENTION},
        subwords={"size": 300},
        training={**treebank.training, "batch_tokens": 256, "average": 1, "precision": "float32"},
        decoding={"beam": 2},
    )
    monkeypatch.setattr("transduce.paper.table4.treebank_of_scale", lambda scale: small)
    return tmp_path


def make(data, *rows, seeds=1):
    options = ExperimentOptions("small", rows, seeds, 0.01, data / "work" / "table4-small", 1, TrainOptions("cpu", 1))
    with logged_lines() as messages:
        _, comparison = table4.run_table4(options)
    return comparison, messages


@pytest.mark.slow
def test_every_row_is_trained_and_printed_beside_the_papers(data):
    comparison, _ = make(data)
    text = table4.as_text(comparison)
    lines = text.splitlines()
    ours = {cells[0]: cells for line in lines if len(cells := [cell.strip() for cell in line[1:-1].split("|")]) == 7}
    for row in table4.ROWS:
        cells = ours[row.name]
        assert cells[2] == "1"
        assert 0 <= float(cells[3]) <= 100
        assert re.fullmatch(r"\[\d+\.\d\d, \d+\.\d\d\]", cells[4])
        assert cells[6] == ("" if row.published is None else str(row.published))
    for (name, how), f1 in PAPER.items():
        assert f"| {name} | {how} | {f1} |" in text
    assert "| next-word | 12 |" in text  # the searches
    assert "1–10 (12)" in text  # the lengths
    assert comparison.parsers[0].seeds[0].metric == "f1"
    table4.draw(comparison, data / "table4.svg")
    picture = (data / "table4.svg").read_text()
    table4.draw(comparison._replace(parsers=[]), data / "empty.svg")
    # A curve and a point with its interval for each of the five parsers.
    assert picture.count("<use") > (data / "empty.svg").read_text().count("<use") + 2 * 5


def test_a_second_call_trains_nothing(data):
    first, _ = make(data, "next-word")
    second, messages = make(data, "next-word")
    assert second == first
    assert len(messages) == 1  # the recorded result


def test_self_training_reads_what_the_in_order_parser_wrote(data):
    _, messages = make(data, "self-training")
    assert messages == ["self-training-1 has no result: train the row in-order first: it parses the text"]
    make(data, "in-order")
    result, _ = make(data, "self-training")
    parsed = (data / "work" / "table4-small" / "self-trained-1.trees").read_text().splitlines()
    raw = (data / "europarl-en-de" / "europarl.20k.en").read_text().splitlines()
    assert [" ".join(words_of(parse_tree(line))) for line in parsed] == raw
    (trained,) = [parser for parser in result.parsers if parser.name == "self-training"]
    assert len(trained.seeds) == 1
    (data / "work" / "table4-small" / "self-trained-1.trees").unlink()
    shutil.rmtree(data / "work" / "table4-small" / "in-order-1")
    again, messages = make(data, "self-training")  # a recorded result needs neither the parser nor its trees
    assert again == result
    assert len(messages) == 1


def test_recorded_seeds_stay_in_the_table(data):
    make(data, "next-word", seeds=2)
    result, _ = make(data, "next-word")
    (row,) = [parser for parser in result.parsers if parser.name == "next-word"]
    assert len(row.seeds) == 2


def test_raw_text_is_parsed_again_after_its_parser_has_changed_unless_a_student_has_begun(data, log_lines):
    work = data / "work" / "table4-small"
    treebank, options = treebank_of_scale("small"), TrainOptions("cpu", 1)
    trees = work / "self-trained-1.trees"

    def parse():
        assert table4._parse_raw_text(treebank, work, 1, options)
        return trees.stat().st_mtime_ns

    make(data, "in-order")
    first = parse()
    assert parse() == first
    (work / "self-trained-1.teacher").write_text("another")
    second = parse()
    assert second > first
    (work / "self-training-1").mkdir()
    (work / "self-trained-1.teacher").write_text("another")
    assert parse() == second
    assert "goes on with the trees of an earlier in-order-1" in log_lines[-1]


def test_without_raw_text_the_other_rows_are_trained(data, monkeypatch):
    (data / "europarl-en-de" / "europarl.20k.en").unlink()
    treebank = treebank_of_scale("small")
    assert treebank.raw is None
    monkeypatch.setattr("transduce.paper.table4.treebank_of_scale", lambda scale: treebank)
    _, messages = make(data, "self-training")
    assert messages == ["self-training-1 has no result: there is no raw text"]


def test_without_a_treebank_the_embedded_trees_are_used(tmp_path, monkeypatch):
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
    treebank = treebank_of_scale("small")
    recipe = table4.recipe_of(treebank, table4.ROWS[0], 1, tmp_path)
    assert recipe.model.kind == "recurrent"
    assert recipe.data.train[0].embedded_trees == "train"
    monkeypatch.setattr("transduce.paper.experiment_scales.SELF_TRAINED", 3)
    assert all(len(sentence) > 1 for sentence in treebank.raw())


def test_the_papers_scale_names_the_sections(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"there is no .*penn-treebank/wsj/02; Table 4 needs"):
        treebank_of_scale("paper")
    for number in range(2, 24):
        (tmp_path / "penn-treebank" / "wsj" / f"{number:02}").mkdir(parents=True)
    recipe = table4.recipe_of(treebank_of_scale("paper"), table4.ROWS[1], 1, tmp_path)
    sections = [corpus.trees[-2:] for corpus in recipe.data.train]
    assert sections == [f"{number:02}" for number in range(2, 22)]
    assert recipe.data.test["test"].trees.endswith("23")
    assert recipe.model.d_model == 1024
    assert recipe.decoding.beam == 21
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
    with pytest.raises(ValueError, match="set TRANSDUCE_DATA"):
        treebank_of_scale("paper")


def test_every_published_figure_is_the_papers():
    assert {(name, how): f1 for name, how, f1 in table4.PUBLISHED}.items() >= PAPER.items()
    assert len(table4.PUBLISHED) == 12
