"""The commands that read a model: their standard output and standard error."""

import errno
import json
import math
import shutil

import pytest
import torch
from safetensors.torch import load_file

from micro_run import forked
from transduce.commands.output_file import write_output
from transduce.model_directory.model import Model
from transduce.run.publishing import average
from transduce.search.beam import Decoding
from transduce.translation.output_format import OutputFormat
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator


@pytest.fixture(scope="module")
def lines(micro):
    return (micro / "test.en").read_text().rstrip("\n").split("\n")


@pytest.fixture(scope="module")
def translator(fluent):
    return Translator.load(fluent)


@pytest.fixture(scope="module")
def translations(translator, lines):
    return translator.translate_records(lines)


@pytest.fixture(scope="module")
def ensemble(fluent, tmp_path_factory):
    """The fluent run, and its checkpoint after half of the steps."""
    out = tmp_path_factory.mktemp("ensemble") / "half"
    average(fluent, out, None, [75])
    return [fluent, out]


def run(*arguments, given=b""):
    ended = forked(*arguments, given=given)
    assert (ended.code, ended.error) == (0, ""), ended.error
    return ended.out


def test_one_line_in_is_one_line_out(fluent, lines, translations, tmp_path):
    """A line ends only at a newline; a carriage return before it is dropped; the last newline may be missing."""
    texts = [*lines[:2], "", "owl\u0085pig\u2028hen\x0cgnu", *lines[2:]]
    plain = run("translate", fluent, given="\n".join(texts).encode() + b"\n").split("\n")
    assert len(plain) == len(texts) + 1
    assert plain[2] == plain[-1] == ""
    assert [*plain[:2], *plain[4:-1]] == [translation.text for translation in translations]
    (tmp_path / "windows.txt").write_bytes("\r\n".join(texts).encode())
    assert run("translate", fluent, tmp_path / "windows.txt").split("\n") == plain


def test_to_a_file(fluent, micro, translations, tmp_path):
    assert run("translate", fluent, micro / "test.en", "--out", tmp_path / "new" / "out.txt") == ""
    expected = "".join(f"{translation.text}\n" for translation in translations)
    assert (tmp_path / "new" / "out.txt").read_bytes() == expected.encode()


def table(printed):
    """Parses rows of line number, text, log-probability, penalised score."""
    rows = [row.split("\t") for row in printed.rstrip("\n").split("\n")]
    return [(int(number), text, float(probability), float(score)) for number, text, probability, score in rows]


def test_scores_are_tsv(fluent, micro, translations):
    rows = table(run("translate", fluent, micro / "test.en", "--scores"))
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5]
    for (_, text, log_probability, score), translation in zip(rows, translations, strict=True):
        assert text == translation.text
        assert (log_probability, score) == pytest.approx((translation.log_probability, translation.score), abs=1e-4)


def test_n_best_are_tsv_best_first(fluent, micro, translations):
    rows = table(run("translate", fluent, micro / "test.en", "--beam=4", "--n-best=3"))
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    for number in range(1, 6):
        scores = [row[3] for row in rows if row[0] == number]
        assert 1 < len(scores) <= 3
        assert scores == sorted(scores, reverse=True)


def test_a_tab_in_a_translation_starts_no_column():
    translations = [[Translation("a\tb", -1.0, -0.5, [])]]
    shown = [OutputFormat(scores=scores).lines(None, ["x"], translations)[0].split("\t") for scores in (True, False)]
    assert shown == [["1", "a b", "-1.000000", "-0.500000"], ["a", "b"]]


def test_translating_scores_as_scoring_does(fluent, micro, translator, translations, tmp_path):
    (tmp_path / "texts").write_text("".join(f"{translation.text}\n" for translation in translations))
    printed = run("score", fluent, "--source", micro / "test.en", "--target", tmp_path / "texts")
    scores = [float(line) for line in printed.rstrip("\n").split("\n")]
    same = [translator.target.encode([translation.text]) == [translation.tokens] for translation in translations]
    assert sum(same) >= 3
    for score, translation, is_same in zip(scores, translations, same, strict=True):
        assert not is_same or score == pytest.approx(translation.log_probability, abs=1e-4)


def test_json_and_alignments(fluent, micro, lines, translations):
    printed = run("translate", fluent, micro / "test.en", "--json", "--alignments")
    records = [json.loads(line) for line in printed.rstrip("\n").split("\n")]
    for number, (record, translation) in enumerate(zip(records, translations, strict=True), start=1):
        assert record["line"] == number
        assert [entry["text"] for entry in record["translations"]] == [translation.text]
        pairs = [tuple(map(int, pair.split("-"))) for pair in record["alignment"].split()]
        assert [target for _, target in pairs] == list(range(len(translation.text.split())))
        assert {source for source, _ in pairs} <= set(range(len(lines[number - 1].split())))
    rows = [line.split("\t") for line in run("translate", fluent, micro / "test.en", "--alignments").split("\n")[:-1]]
    assert rows == [[t.text, record["alignment"]] for t, record in zip(translations, records, strict=True)]


def test_prefixes_samples_greedy_and_ensembles(fluent, lines, tmp_path):
    text = "".join(f"{line}\n" for line in lines).encode()
    (tmp_path / "prefixes").write_text("gip gip\n\nlwo\n\n\n")
    out = run("translate", fluent, "--prefix", tmp_path / "prefixes", given=text).split("\n")
    assert out[0].startswith("gip gip")
    assert out[2].startswith("lwo")
    sampled = [run("translate", fluent, "--temperature", 1, "--seed", seed, given=text) for seed in (1, 1, 2)]
    assert sampled[0] == sampled[1] != sampled[2]
    greedy = run("translate", fluent, "--greedy", given=text)
    assert run("translate", fluent, "--top-k", 1, given=text) == greedy
    assert run("translate", fluent, fluent, given=text) == run("translate", fluent, given=text)


def test_top_p_limits_the_tokens_that_are_drawn(fluent, micro, command):
    """With next to no mass only the most probable token is left; half of the mass gives another result than all."""
    sample = ["translate", fluent, micro / "test.en", "--temperature", 1, "--seed", 3]
    assert command(*sample, "--top-p", 1e-6) == command("translate", fluent, micro / "test.en", "--greedy")
    sampled = [command(*sample, *options)[1] for options in ([], ["--top-p", 0.5], ["--top-p", 1.0])]
    assert sampled[0] == sampled[2] != sampled[1]


@pytest.mark.parametrize(
    ("option", "changed"),
    [
        ("--beam=1", {"beam": 1}),
        ("--length-penalty=0", {"length_penalty": 0.0}),
        ("--length-penalty=5", {"length_penalty": 5.0}),
    ],
)
def test_options_change_the_search(fluent, micro, lines, translator, translations, command, option, changed):
    expected = translator.translate_lines(lines, SearchMethod(translator.decoding.model_copy(update=changed)))
    code, printed, _ = command("translate", fluent, micro / "test.en", "--scores", option)
    actual = [(text, score) for _, text, _, score in table(printed)]
    assert code == 0
    assert actual == [(best[0].text, pytest.approx(best[0].score, abs=1e-4)) for best in expected]
    assert actual != [(default.text, pytest.approx(default.score, abs=1e-4)) for default in translations]


def test_several_models_are_an_ensemble_in_every_command(ensemble, micro, lines, command, tmp_path):
    both, source, target = Translator.load(*ensemble), micro / "test.en", micro / "test.de"
    expected = both.translate(lines)
    members = [Translator.load(run) for run in ensemble]
    assert all(member.translate(lines) != expected for member in members)
    assert command("translate", *ensemble, source)[1].split("\n")[:-1] == expected
    code, printed, _ = command("evaluate", *ensemble, "--test", "spare", "--json", "--out", tmp_path / "out")
    assert (code, (tmp_path / "out").read_text().split("\n")[:-1]) == (0, expected)
    code, printed, _ = command("score", *ensemble, "--source", source, "--target", target)
    scores = [float(line) for line in printed.split("\n")[:-1]]
    assert (code, scores) == (0, pytest.approx(both.score(lines, target.read_text().split("\n")[:-1]), abs=1e-5))
    for member in members:
        assert scores != pytest.approx(member.score(lines, target.read_text().split("\n")[:-1]), abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", "5"], "use --beam 5"),
        (["--prefix", "PREFIX"], "has 1 lines, the text has 2"),
        (["--temperature", "0"], "temperature"),
        (["--device", "tpu"], "choose auto, cpu or cuda"),
        (["--device", "cpu:x"], "choose auto, cpu or cuda"),
        (["--greedy", "--n-best", "2"], "only a beam has several translations"),
        (["--greedy", "--top-k", "3"], "choose one"),
        (["--seed", "0"], "--seed 0: it is for sampling: add --temperature, --top-k or --top-p; leave it out"),
        (["--greedy", "--length-penalty", "3"], "--length-penalty 3.0: it is for a beam search; leave it out"),
        (["--top-p", "0.9", "--beam", "4"], "--beam 4: it is for a beam search; leave it out"),
        (["--alignments", "--scores"], "add --json"),
        (["--alignments", "--n-best", "2"], "add --json"),
    ],
)
def test_options_that_exclude_each_other_are_refused(fluent, tmp_path, options, message):
    (tmp_path / "prefix").write_text("one\n")
    options = [str(tmp_path / "prefix") if option == "PREFIX" else option for option in options]
    ended = forked("translate", fluent, *options, given=b"owl\npig\n")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.error


def test_evaluating(fluent, micro, translations, tmp_path):
    options = ["--test", "spare", "--json", "--bootstrap", 20, "--out", tmp_path / "out"]
    report = json.loads(run("evaluate", fluent, *options))
    names = {"bleu", "chrf", "weights", "sentences", "seconds", "tokens_per_second", "decoding", "precision"}
    assert report.keys() == names
    assert report["bleu"].keys() == {"score", "signature", "low", "high"}
    assert report["bleu"]["low"] <= report["bleu"]["score"] <= report["bleu"]["high"]
    assert (report["weights"]["kind"], report["sentences"], report["precision"]) == ("best", 5, "float32")
    assert report["decoding"] == Decoding(beam=2, length_penalty=0.6, extra_length=4).as_dictionary()
    assert (tmp_path / "out").read_text() == "".join(f"{translation.text}\n" for translation in translations)
    measured = json.loads(run("measure", "--reference", micro / "test.de", "--json", tmp_path / "out"))
    assert measured["bleu"]["score"] == report["bleu"]["score"]
    ended = forked("evaluate", fluent, "--source", micro / "test.en", "--reference", micro / "test.de")
    assert ended.code == 0
    assert ended.out.split("\n")[0].startswith(f"bleu  {report['bleu']['score']:.2f}  nrefs:1|")
    assert "5 sentences in" in ended.error


def test_evaluating_an_unknown_test_set(fluent, micro):
    ended = forked("evaluate", fluent, "--test", "spear")
    assert (ended.code, ended.out) == (2, "")
    assert "names spare, validation" in ended.error
    assert forked("evaluate", fluent).code == 2
    ended = forked("evaluate", fluent, "--source", micro / "test.en", "--reference", micro / "validation.de")
    assert ended.code == 2
    assert "5 lines and" in ended.error


def test_evaluating_is_a_search_with_the_options_of_translating(fluent, micro, command, tmp_path):
    code, greedy, _ = command("translate", fluent, micro / "test.en", "--beam", 1)
    assert code == 0
    code, printed, _ = command("evaluate", fluent, "--test", "spare", "--beam", 1, "--json", "--out", tmp_path / "out")
    assert (code, (tmp_path / "out").read_text()) == (0, greedy)
    assert json.loads(printed)["decoding"]["beam"] == 1


def test_a_folder_of_text_is_a_corpus(fluent, tmp_path, command):
    (tmp_path / "texts").mkdir()
    code, printed, error = command("translate", fluent, tmp_path / "texts")
    assert (code, printed) == (2, "")
    assert f"{tmp_path / 'texts'} is a folder without a model: name a file of text (`transduce" in error


@pytest.mark.parametrize("verb", [["evaluate", "RUN", "--test", "spare"], ["bench", "train", "RUN"]])
def test_a_missing_run_is_not_reported_as_a_missing_recipe(tmp_path, command, verb):
    missing = tmp_path / "missing"
    code, printed, error = command(*(str(missing) if word == "RUN" else word for word in verb))
    assert (code, printed) == (2, "")
    assert f"there is no model directory {missing}" in error


def test_weights_have_the_permissions_of_the_recipe(fluent):
    modes = {(fluent / name).stat().st_mode for name in ("model.safetensors", "recipe.yaml")}
    assert len(modes) == 1


def test_an_unknown_metric_is_refused_before_translating(fluent, tmp_path):
    ended = forked("evaluate", fluent, "--test", "spare", "--metric", "bleu,blue", "--out", tmp_path / "new" / "out")
    assert (ended.code, ended.out) == (2, "")
    assert "'blue' is unknown" in ended.error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("verb", ["translate", "evaluate"])
def test_an_output_that_cannot_be_written_is_refused_before_translating(
    fluent, micro, tmp_path, command, verb, monkeypatch
):
    monkeypatch.setattr(Translator, "load", lambda *arguments, **options: pytest.fail("read"))
    text = [micro / "test.en"] if verb == "translate" else ["--test", "spare"]
    code, printed, error = command(verb, fluent, *text, "--out", tmp_path)
    assert (code, printed) == (2, "")
    assert f"--out {tmp_path}: that is a folder" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["train", "--precision", "int8"], "--precision int8: it is for translating"),
        (["train", "RUN", "--preset", "base"], "--preset base: it is another model than that of the run"),
        (["translate", "RUN", "--preset", "big"], "--preset big: it is for training"),
        (["translate", "RUN", "--set", "training.seed=2"], "--set training.seed=2: it is for training"),
        (["translate", "RUN", "--data", "EMPTY"], "a text without a word"),
    ],
)
def test_a_benchmark_refuses_options_without_effect(fluent, tmp_path, options, message):
    (tmp_path / "empty").write_text("\n \n")
    paths = {"RUN": str(fluent), "EMPTY": str(tmp_path / "empty")}
    ended = forked("bench", *(paths.get(option, option) for option in options))
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.error


def test_a_benchmark_of_a_run_trains_its_recipe(fluent):
    report = json.loads(forked("bench", "train", fluent, "--steps", 1, "--json").out)
    assert (report["settings"]["what"], report["settings"]["batch_tokens"]) == (str(fluent), 1024)


def test_averaging(trained, tmp_path):
    ended = forked("average", trained, "--last", 2, "--out", tmp_path / "mean")
    assert (ended.code, ended.out) == (0, f"{tmp_path / 'mean'}: average of steps 8, 12\n")
    # The run's own average, to the byte.
    assert (tmp_path / "mean" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert forked("average", trained, 8, "--out", tmp_path / "one").code == 0
    assert (tmp_path / "one" / "model.safetensors").read_bytes() == (
        trained / "training" / "step-00000008" / "model.safetensors"
    ).read_bytes()
    assert Model.read(tmp_path / "one").config.weights.steps == (8,)
    ended = forked("average", trained, 7, 8, "--out", tmp_path / "none")
    assert ended.code == 2
    assert "no checkpoint of step 7; it has 8, 12" in ended.error
    both = forked("average", trained, 8, 12, "--out", tmp_path / "both")
    assert both.out == f"{tmp_path / 'both'}: average of steps 8, 12\n"


def test_an_average_does_not_overwrite_a_model(trained, tmp_path):
    before = {path: path.read_bytes() for path in trained.iterdir() if path.is_file()}
    ended = forked("average", trained, "--last", 2, "--out", trained)
    assert (ended.code, ended.out) == (2, "")
    assert f"{trained} is not empty" in ended.error
    assert {path: path.read_bytes() for path in trained.iterdir() if path.is_file()} == before
    other = tmp_path / "model of another program"
    other.mkdir()
    (other / "config.json").write_text("{}")
    assert forked("average", trained, "--last", 2, "--out", other).code == 2
    assert (other / "config.json").read_text() == "{}"


def test_an_average_has_as_many_checkpoints_as_named_each_once(trained, tmp_path):
    ended = forked("average", trained, "--last", 20, "--out", tmp_path / "mean")
    assert (ended.code, ended.out) == (2, "")
    assert "has no 20 checkpoints; it has 8, 12" in ended.error
    twice = forked("average", trained, 8, 8, 12, "--out", tmp_path / "mean")
    assert twice.out == f"{tmp_path / 'mean'}: average of steps 8, 12\n"


def test_info(trained):
    summary = json.loads(run("info", trained, "--json"))
    counted = {"parameters", "parameters_by_part", "flops_per_target_token", "vocabulary"}
    assert summary.keys() == {*counted, "spec", "decoding"}
    assert summary["vocabulary"] == {"source": 320, "target": 320}
    model = Model.read(trained)
    assert summary["parameters"] == sum(parameter.numel() for parameter in model.module.parameters())
    assert summary["spec"] == model.config.model.as_dictionary()
    assert json.loads(run("info", trained, "--vocabulary", 1000, "--json"))["vocabulary"]["source"] == 1000
    rows = run("info", trained).split("\n\n")[0].split("\n")
    assert rows[0].split() == ["parameters", "at", "320", "subwords", f"{summary['parameters']:,}"]
    assert len({len(line) for line in rows[:-1]}) == 1  # numbers end in one column


def test_info_of_a_recipe(micro):
    summary = json.loads(run("info", micro / "recipe.yaml", "--json"))
    assert (summary["spec"]["d_model"], summary["vocabulary"]["source"]) == (24, 320)


def test_verifying(trained, tmp_path):
    assert run("info", trained, "--verify") == f"{trained}: every file matches its checksum\n"
    damaged = shutil.copytree(trained, tmp_path / "damaged")
    content = bytearray((damaged / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (damaged / "model.safetensors").write_bytes(content)
    for verb in (["info", damaged, "--verify"], ["translate", damaged]):
        ended = forked(*verb, given=b"owl\n")
        assert (ended.code, ended.out) == (2, "")
        assert "model.safetensors" in ended.error


@pytest.mark.parametrize("name", ["target.ids", "store.json"])
def test_verifying_the_prepared_corpus(trained, tmp_path, name):
    damaged = shutil.copytree(trained, tmp_path / "damaged")
    path = damaged / "training" / "store" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    ended = forked("info", damaged, "--verify")
    assert (ended.code, ended.out) == (2, "")
    assert "prepared corpus: " in ended.error
    assert name in ended.error


def test_drawing(trained, tmp_path):
    ended = forked("draw", trained, "the owl", "--out", tmp_path / "a.html", "--target", "eht lwo")
    assert (ended.code, ended.out) == (0, f"{tmp_path / 'a.html'}\n")
    assert ended.error == "the owl → eht lwo\n"
    assert (tmp_path / "a.html").read_text().startswith("<!")


def test_preparing_is_what_training_does_first(micro, trained, tmp_path):
    ended = forked("train", micro / "recipe.yaml", "--out", tmp_path, "--prepare")
    assert ended.code == 0
    assert ended.out == f"{tmp_path / 'training' / 'store'}: 300 pairs, 320 subwords\n"
    ended = forked("train", micro / "recipe.yaml", "--out", tmp_path)
    assert ended.code == 0
    assert "learning subwords" not in ended.error
    assert (tmp_path / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_training_starts_from_another_model(micro, trained, command, tmp_path):
    changes = ["steps=1", "schedule.peak=1e-30", "average=null", "validate_every=null"]
    settings = [f"--set=training.{change}" for change in changes]
    code, printed, _ = command("train", micro / "recipe.yaml", "--out", tmp_path, "--from", trained, *settings)
    assert (code, printed) == (
        0,
        f"{tmp_path}: 1 steps are done; weights: last of step 1\nnext: transduce evaluate {tmp_path} --test spare\n",
    )
    started, original = load_file(tmp_path / "model.safetensors"), load_file(trained / "model.safetensors")
    assert all(torch.allclose(started[name], original[name], atol=1e-12) for name in original)


def test_scores_are_finite_numbers(fluent, tmp_path):
    (tmp_path / "source").write_text("owl\n\npig\n")
    (tmp_path / "target").write_text("\nlwo\ngip.\n")
    scores = run("score", fluent, "--source", tmp_path / "source", "--target", tmp_path / "target").split("\n")[:-1]
    assert [math.isfinite(float(score)) and float(score) < 0 for score in scores] == [True] * 3
    (tmp_path / "target").write_text("one\n")
    ended = forked("score", fluent, "--source", tmp_path / "source", "--target", tmp_path / "target")
    assert ended.code == 2
    assert "has 3 lines" in ended.error


def test_an_output_stays_until_the_next_is_complete(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.write_text("before\n")

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("transduce.storage.atomic.flush_to_disk", full)
    with pytest.raises(OSError, match="No space left"):
        write_output("after\n", out)
    assert out.read_text() == "before\n"
    monkeypatch.undo()
    (tmp_path / "link").symlink_to(out)
    write_output("after\n", tmp_path / "link")
    assert (out.read_text(), (tmp_path / "link").is_symlink()) == ("after\n", True)


def test_a_fetched_corpus_is_not_a_model(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({"version": 1, "parts": {"train": {"files": {}}}}))
    ended = forked("info", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert f"{tmp_path} holds a corpus that `transduce fetch` has brought, and no model" in ended.error
