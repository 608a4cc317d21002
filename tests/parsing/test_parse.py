"""`transduce parse`, `evaluate`, `draw --tree` and `train` with a parser."""

import json
import shutil

import pytest

from parsing_run import run
from transduce.model_directory.model import Model
from transduce.parsing.parser import Parser
from transduce.parsing.trees import parse_tree, words_of
from transduce.translation.search_method import search_method

SENTENCES = ["the owl saw a mole .", "", "a cat heard the dog by the hen .", "this hen met the cat with a dog ."]


def test_one_line_in_is_one_tree_over_its_words(parser, tmp_path):
    text = tmp_path / "input.txt"
    text.write_text("".join(f"{line}\n" for line in SENTENCES))
    result = run("parse", parser, text)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) == 4
    assert lines[1] == ""
    for line, sentence in zip(lines, SENTENCES, strict=True):
        assert not sentence or " ".join(words_of(parse_tree(line))) == sentence


def test_the_words_decide_where_a_phrase_belongs(parser):
    by, with_ = run("parse", parser, given=f"{SENTENCES[2]}\n{SENTENCES[3]}\n").stdout.splitlines()
    assert "(VBD heard) (NP (DT the) (NN dog)) (PP (IN by)" in by
    assert "(NP (NP (DT the) (NN cat)) (PP (IN with)" in with_


def test_raw_text_is_split_as_the_treebank_splits_it(parser):
    (line,) = run("parse", parser, given="the owl didn't see (a mole).\n").stdout.splitlines()
    assert words_of(parse_tree(line)) == ["the", "owl", "did", "n't", "see", "(", "a", "mole", ")", "."]
    assert "-LRB-)" in line
    (line,) = run("parse", parser, "--tokenised", given="the owl didn't (see .\n").stdout.splitlines()
    assert words_of(parse_tree(line)) == ["the", "owl", "didn't", "(see", "."]


def test_tables_and_objects(parser):
    table = [
        line.split("\t")
        for line in run("parse", parser, "--n-best", "2", given="a cat met the dog .\n\n").stdout.splitlines()
    ]
    assert [row[0] for row in table] == ["1", "1", "2"]
    scores = [float(row[3]) for row in table[:2]]
    assert scores == sorted(scores, reverse=True)
    assert table[2][1:] == ["", "0.000000", "0.000000"]
    record, empty = map(json.loads, run("parse", parser, "--json", given="a cat met the dog .\n\n").stdout.splitlines())
    assert record["line"] == 1
    assert record["trees"][0]["tree"] == table[0][1]
    assert record["trees"][0]["log_probability"] == pytest.approx(scores[0], abs=1e-5)
    assert record["trees"][0]["fault"] is None
    assert empty == {"line": 2, "trees": []}


def test_an_unconstrained_search_is_repaired(parser):
    odd = "mole mole the the saw by . with with owl"
    for options, is_repaired in (["--unconstrained"], True), ([], False):
        (best,) = json.loads(run("parse", parser, "--json", "--tokenised", *options, given=f"{odd}\n").stdout)["trees"]
        assert words_of(parse_tree(best["tree"])) == odd.split()
        assert (best["fault"] is not None) == is_repaired


def test_a_line_that_cannot_be_parsed_has_a_flat_tree_and_a_warning(parser):
    long = " ".join(["owl"] * 20_000)
    result = run("parse", parser, "--tokenised", given=f"{long}\nthe owl saw a mole .\n")
    flat, tree = result.stdout.splitlines()
    assert result.exit_code == 0
    assert words_of(parse_tree(flat)) == long.split()
    assert "warning: line 1 " in result.stderr
    assert "flat tree" in result.stderr
    assert tree.count("(") > 8


def test_evaluation_measures_the_trees_of_the_recipe_and_of_a_file(parser, treebank, tmp_path, monkeypatch):
    monkeypatch.chdir(treebank)
    out = tmp_path / "parsed.trees"
    report = json.loads(run("evaluate", parser, "--test", "spare", "--json", "--out", out).stdout)
    assert report["sentences"] == 40
    assert report["brackets"]["score"] > 90
    assert report["repaired"] == 0
    measured = run("measure", "--metric", "brackets", "--reference", "test.trees", out, "--json")
    assert json.loads(measured.stdout)["brackets"]["score"] == report["brackets"]["score"]
    table = run("evaluate", parser, "--reference", "test.trees")
    assert table.exit_code == 0
    assert "repaired" in table.stdout
    assert "symbols/s" in table.stderr


def test_training_logs_the_f1_of_validation(parser):
    records = map(json.loads, (parser / "metrics.jsonl").read_text().splitlines())
    scores = [record["f1"] for record in records if "f1" in record]
    assert len(scores) == 3  # two validations, and that of the average
    assert scores[-1] > 90


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--test", "spare", "--source", "x.en"], "--source x.en: it is not for parsers"),
        (["--test", "spare", "--metric", "bleu"], "--metric bleu: it is not for parsers"),
        ([], "--reference TREES, or --test NAME"),
        (["--test", "spare", "--reference", "test.trees"], "--reference TREES, or --test NAME"),
        (["--reference", "nowhere.trees"], "nowhere.trees"),
        (["--reference", "empty.trees"], "empty.trees: there is no tree"),
        (["--reference", "broken.trees"], "broken.trees: the tree that begins on line 1 lacks a closing bracket;"),
    ],
)
def test_evaluations_that_are_refused(parser, treebank, arguments, message, monkeypatch):
    monkeypatch.chdir(treebank)
    (treebank / "empty.trees").write_text("")
    (treebank / "broken.trees").write_text("(S (NP (NN owl))\n")
    result = run("evaluate", parser, *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_translator_is_no_parser_and_a_parser_no_translator(parser, trained):
    refused = run("parse", trained, given="owl\n")
    assert refused.exit_code == 2
    assert "use `transduce translate`" in refused.stderr
    refused = run("translate", parser, given="owl\n")
    assert refused.exit_code == 2
    assert "use `transduce parse`" in refused.stderr


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_a_tree_is_drawn(parser, tmp_path, suffix):
    out = tmp_path / f"tree.{suffix}"
    result = run("draw", parser, "the owl saw a mole .", "--tree", "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{out}\n"
    assert out.stat().st_size > 500
    assert result.stderr.startswith("(S ")
    assert suffix == "png" or "owl" in out.read_text()


def test_a_tree_is_drawn_beside_the_gold_tree(parser, tmp_path):
    sentence, gold = "the owl saw a mole .", "(S (FRAG (DT the) (NN owl)) (VP (VBD saw) (NP (DT a) (NN mole))) (. .))"
    drawn = run("draw", parser, sentence, "--tree", "--target", gold, "--out", tmp_path / "tree.svg")
    assert drawn.exit_code == 0, drawn.output
    assert "FRAG" in (tmp_path / "tree.svg").read_text()
    refused = run("draw", parser, "the owl", "--tree", "--target", gold, "--out", tmp_path / "other.svg")
    assert refused.exit_code == 2
    empty = run("draw", parser, " ", "--tree", "--out", tmp_path / "other.svg")
    assert empty.exit_code == 2
    assert "there is no word" in empty.stderr
    assert not (tmp_path / "other.svg").exists()


def test_two_parsers_are_an_ensemble(parser, tmp_path):
    """The mean of a model and of one that was trained less lies between both."""
    other = tmp_path / "other"
    assert run("average", parser, "60", "--out", other).exit_code == 0
    sentence = "a cat met the dog .\n"
    scores = [
        float(run("parse", *runs, "--scores", given=sentence).stdout.split("\t")[2])
        for runs in ([parser], [other], [parser, other])
    ]
    assert min(scores[:2]) < scores[2] < max(scores[:2])


def test_a_parser_alone_and_beside_its_copy_agree(parser, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(parser, other)
    alone, both = (
        run("parse", *runs, "--scores", given="a cat met the dog .\n").stdout for runs in ([parser], [parser, other])
    )
    assert alone.split("\t")[1] == both.split("\t")[1]
    assert float(alone.split("\t")[2]) == pytest.approx(float(both.split("\t")[2]), abs=1e-4)


def test_parses_do_not_depend_on_the_other_sentences(parser):
    sentences = [line.split() for line in SENTENCES if line]
    model = Parser.load(parser)
    together = [best[0].tree for best in model.parse(sentences)]
    assert together == [model.parse([sentence])[0][0].tree for sentence in sentences]


def test_words_with_spaces_are_refused(parser):
    with pytest.raises(ValueError, match=r"sentence 2 has the word 'New York'"):
        Parser.load(parser).parse([["owl"], ["New York"]])


def test_what_is_no_list_of_words_is_refused(parser):
    for sentence in ("the owl", ["a", 3]):
        with pytest.raises(TypeError, match="sentence 1 is not a list of words"):
            Parser.load(parser).parse([sentence])


def test_a_search_with_a_setting_of_translations_is_refused(parser):
    model = Parser.load(parser)
    method = search_method(model.translator.decoding, no_repeat_ngram=2)
    with pytest.raises(ValueError, match="`no_repeat_ngram` is for translations"):
        model.parse([["owl"]], method)


def test_symbols_are_scored_and_trees_are_no_symbols(parser, tmp_path):
    (tmp_path / "source").write_text("the owl saw a mole .\n")
    (tmp_path / "symbols").write_text("DT (NP NN )NP (S VBD (VP DT (NP NN )NP )VP . )S\n")
    scored = run("score", parser, "--source", tmp_path / "source", "--target", tmp_path / "symbols")
    assert float(scored.stdout) > -5
    (tmp_path / "tree").write_text("(S (NP (DT the) (NN owl)) (VP (VBD saw) (NP (DT a) (NN mole))) (. .))\n")
    refused = run("score", parser, "--source", tmp_path / "source", "--target", tmp_path / "tree")
    assert refused.exit_code == 2
    assert "no symbol of this parser" in refused.stderr


def test_evaluate_measures_against_trees_as_they_are_written(parser, tmp_path):
    gold = tmp_path / "gold.trees"
    gold.write_text(
        "( (S (NP-SBJ (NP (DT the) (NN owl))) (VP (VBD saw) (NP (DT a) (NN mole)) (NP (-NONE- *))) (. .)) )\n"
        "( (NP (-NONE- *)) )\n"
        "(S (NP (DT a) (NN cat)) (VP (VBD met) (NP (DT the) (NN dog))) (. .))\n"
    )
    report = json.loads(run("evaluate", parser, "--reference", gold, "--out", tmp_path / "parsed", "--json").stdout)
    lines = (tmp_path / "parsed").read_text().splitlines()
    assert [bool(line) for line in lines] == [True, False, True]
    measured = run("measure", "--metric", "brackets", "--reference", gold, tmp_path / "parsed", "--json")
    score = json.loads(measured.stdout)["brackets"]
    assert score["score"] == report["brackets"]["score"] < 100  # the chain of two NP counts twice


def test_a_training_begins_with_a_parser_of_the_same_kind(parser, treebank, tmp_path, monkeypatch):
    monkeypatch.chdir(treebank)
    short = ["--set", "training.steps=2", "--set", "training.average=null", "--set", "training.validate_every=null"]
    start = ["--from", parser, *short, "--out", tmp_path / "next"]
    refused = run("train", "trees.yaml", *start, "--set", "data.linearisation={kind: top_down}")
    assert refused.exit_code == 2
    assert "`data.linearisation.kind` is in_order in the model and top_down in the recipe" in refused.stderr
    (treebank / "other.trees").write_text("(FRAG (NN owl))\n(S (NP (NN owl)) (VP (VBD saw)))\n")
    trained = run("train", "trees.yaml", *start, "--set", "data.train={trees: other.trees}")
    assert trained.exit_code == 0, trained.output
    assert "1 dropped, with symbols that the model of --from does not have: other.trees:1; --grow" in trained.output


def test_a_tag_chooses_the_annotation_and_is_no_word(treebank, tmp_path):
    """Two treebanks of the same sentences differ in a label, so that only the tag tells which to write."""
    for name in ("train", "validation"):
        trees = (treebank / f"{name}.trees").read_text()
        (tmp_path / f"{name}.wsj").write_text(trees)
        (tmp_path / f"{name}.craft").write_text(trees.replace("(NP", "(NML"))
    corpora = {
        name: "[" + ", ".join(f"{{trees: {tmp_path}/{name}.{tag}, tag: {tag}}}" for tag in ("wsj", "craft")) + "]"
        for name in ("train", "validation")
    }
    changes = [f"data.{name}={value}" for name, value in corpora.items()]
    changes += [f"data.test={{t: {{trees: {tmp_path}/validation.craft, tag: craft}}}}"]
    options = [word for change in changes for word in ("--set", change)]
    result = run("train", treebank / "trees.yaml", "--out", tmp_path / "run", *options)
    assert result.exit_code == 0, (result.output, result.exception)
    logged = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    record = [record for record in logged if "f1" in record][-1]
    assert record["f1"] == pytest.approx((record["f1.en-wsj"] + record["f1.en-craft"]) / 2)
    text = "".join(f"{line}\n" for line in SENTENCES)
    for tag, label, other in (("wsj", "(NP", "(NML"), ("craft", "(NML", "(NP")):
        lines = run("parse", tmp_path / "run", "--tag", tag, given=text).stdout.splitlines()
        assert [words_of(parse_tree(line)) if line else [] for line in lines] == [one.split() for one in SENTENCES]
        assert any(label in line for line in lines)
        assert not any(other in line for line in lines)
    for arguments in (["parse"], ["parse", "--tag", "news"], ["translate", "--tag", "wsj"]):
        assert run(arguments[0], tmp_path / "run", *arguments[1:], given=text).exit_code == 2
    report = run("evaluate", tmp_path / "run", "--test", "t", "--json")
    assert json.loads(report.stdout)["brackets"]["score"] > 50
    words = ["the owl saw a mole .", "--tree", "--tag", "craft", "--out", tmp_path / "t.svg"]
    picture = run("draw", tmp_path / "run", *words)
    assert "(NML" in picture.stderr


def test_a_parser_is_fine_tuned_with_trees_alone(parser, treebank, tmp_path):
    """F1 before and after; the words grow, and the symbols of trees gain those of the new trees."""
    trees = "(S (NP (DT the) (NN axolotl)) (VP (VBD saw) (NX (DT a) (NN capybara))) (. !))\n"
    trees += "(S (NP (DT the) (NN axolotl)) (VP (VBD saw) (NP (DT a) (ZZ capybara))) (. .))\n"
    (treebank / "domain.trees").write_text(trees * 3)
    (treebank / "domain.yaml").write_text("data: {train: {trees: domain.trees}, test: {spare: {trees: test.trees}}}")
    options = ("--grow-vocabulary", 5, "--set", "training.steps=1", "--out", tmp_path / "next")
    tuned = run("train", treebank / "domain.yaml", "--from", parser, *options)
    assert tuned.exit_code == 0, tuned.output
    table = tuned.stderr[tuned.stderr.index("test set ") :].splitlines()
    assert table[0].split() == ["test", "set", "F1", "before", "F1", "after"]
    score = json.loads(run("evaluate", parser, "--test", "spare", "--json").stdout)["brackets"]["score"]
    assert table[1].split()[:2] == ["spare", f"{score:.2f}"]
    before, after = Model.read(parser), Model.read(tmp_path / "next")
    assert after.source.size == before.source.size + 5
    assert after.target.symbols == (*before.target.symbols, "(NX", ")NX", "ZZ")
    assert "symbols of trees grown from" in tuned.stderr
    assert "6 of 6 pairs kept" in tuned.stderr
    refused = run("train", treebank / "domain.yaml", "--from", parser, *options, "--set", "data.train={tsv: a.tsv}")
    assert "`data.train` has translations, and the model of --from parses" in refused.stderr
