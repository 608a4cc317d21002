"""The coverage penalty: its formula, its ranking, and the models that have none."""

import json
import math

import numpy as np
import pytest
import torch

from transduce.model import Vocabulary
from transduce.model_directory import Model
from transduce.paper.models.recurrent import Recurrent
from transduce.search import Decoding
from transduce.translation.coverage import coverage
from transduce.translation.search_method import search_method
from transduce.translation.translator import Translator

LINES = ["cat dog", "", "the owl saw a mole and an ibis near the lark", "pig", "gnu hen ibis jay kite fox"]
BETA = 3.0


def logs_of_sums(weights, steps, tokens):
    """Equation 14 of Wu et al. 2016 without β, word by word: p_ij of step j and source token i."""
    return sum(math.log(min(sum(float(weights[j][i]) for j in steps), 1.0)) for i in tokens)


def test_coverage_is_the_sum_of_logarithms_of_attention_up_to_one():
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.75, 0.125, 0.125], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    written = torch.tensor([[True, True, True, False]])
    expected = math.log(0.25 + 0.125)  # the third token; the first and the second have 1 and more
    assert float(coverage(weights, written, torch.tensor([[True, True, True]]))) == pytest.approx(expected)
    assert float(coverage(weights, written, torch.tensor([[True, True, False]]))) == 0
    nothing = coverage(torch.zeros(1, 4, 3), written, torch.tensor([[True, True, True]]))
    assert math.isfinite(float(nothing))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_all_hypotheses_of_the_beam_are_ranked_by_score_and_coverage(fluent, precision):
    translator = Translator.load(fluent, precision=precision)
    exact = Translator.load(fluent)  # int8 ranks by the attention of the float32 weights too
    plain = translator.translate(LINES, n_best=4, beam=4)
    ranked = translator.translate(LINES, n_best=4, beam=4, coverage_penalty=BETA)
    for line, before, after in zip(LINES, plain, ranked, strict=True):
        expected = []
        for one in before if line else []:
            weights = exact.explain(line, one.tokens).cross[-1].mean(axis=0)
            covered = logs_of_sums(weights, range(len(one.tokens) + 1), range(weights.shape[1] - 1))
            expected.append((one.score + BETA * covered, one.text))
        expected.sort(reverse=True)
        assert [one.text for one in after] == ([text for _, text in expected] or [""])
        assert [one.score for one in after] == pytest.approx([score for score, _ in expected] or [0.0], abs=1e-3)
        assert sorted(one.log_probability for one in before) == pytest.approx(
            sorted(one.log_probability for one in after), abs=1e-4
        )


def test_the_best_of_a_line_are_the_first_of_all(fluent):
    translator = Translator.load(fluent)
    options = {"beam": 4, "coverage_penalty": BETA}
    all_of_beam = translator.translate(LINES, n_best=4, **options)
    assert [one.text for one in translator.translate(LINES, **options)] == [best[0].text for best in all_of_beam]
    assert any(
        best[0].text != plain.text for best, plain in zip(all_of_beam, translator.translate(LINES, beam=4), strict=True)
    )


def test_a_translation_does_not_depend_on_the_batch(fluent):
    translator, options = Translator.load(fluent), {"coverage_penalty": BETA, "n_best": 3, "beam": 3}
    lines = LINES * 12  # more sentences than one pass takes
    together, alone = (translator.translate(lines, batch_tokens=size, **options) for size in (10_000, 1))
    assert [[one.text for one in best] for best in together] == [[one.text for one in best] for best in alone]


def test_prefixes_are_ranked_too(fluent):
    prefixed = Translator.load(fluent).translate("cat dog", prefix="Hund", coverage_penalty=BETA, beam=3, n_best=3)
    assert all(one.text.startswith("Hund") for one in prefixed)


@pytest.mark.parametrize("source_tags", [(), (5,)])
def test_the_attention_of_an_ensemble_is_the_mean_and_that_to_tags_does_not_count(fluent, source_tags):
    models = [Model.read(fluent) for _ in range(2)]
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in models[1].module.parameters():
            parameter.add_(0.1 * parameter.std() * torch.randn_like(parameter))
    sides = models[0].source, models[0].target, models[0].config.decoding
    one, other, both = (
        Translator([model.module for model in members], *sides).with_source_tags(source_tags)
        for members in (models[:1], models[1:], models)
    )
    plain = both.translate("cat dog owl", beam=3, n_best=3)
    scores = []
    for best in plain:
        weights = [member.explain("cat dog owl", best.tokens).cross[-1].mean(axis=0) for member in (one, other)]
        assert np.abs(weights[0] - weights[1]).max() > 0.01
        mean, tokens = (weights[0] + weights[1]) / 2, range(len(source_tags), weights[0].shape[1] - 1)
        scores.append(best.score + BETA * logs_of_sums(mean, range(len(best.tokens) + 1), tokens))
    ranked = both.translate("cat dog owl", beam=3, n_best=3, coverage_penalty=BETA)
    assert [best.score for best in ranked] == pytest.approx(sorted(scores, reverse=True), abs=1e-3)


def test_the_option_is_of_a_beam_search():
    decoding = Decoding(beam=3, coverage_penalty=0.2)
    assert search_method(decoding).ranks_by_coverage
    assert not search_method(decoding, coverage_penalty=0.0).ranks_by_coverage
    assert not search_method(decoding, greedy=True).ranks_by_coverage
    with pytest.raises(ValueError, match="`coverage_penalty` is an option of a beam search"):
        search_method(decoding, greedy=True, coverage_penalty=0.2)
    with pytest.raises(ValueError, match="coverage_penalty"):
        search_method(decoding, coverage_penalty=math.nan)


def test_a_model_without_attention_over_the_source_is_refused(fluent):
    loaded = Translator.load(fluent)
    sizes = Vocabulary(source=loaded.source.size, target=loaded.target.size)
    baseline = Recurrent(d_model=12, encoder_layers=1, decoder_layers=1, cell={"kind": "lstm"}).build(sizes).eval()
    translator = Translator([baseline], loaded.source, loaded.target, Decoding(beam=2, extra_length=3))
    assert len(translator.translate(LINES)) == len(LINES)
    with pytest.raises(ValueError, match="needs the Transformer's attention over the source"):
        translator.translate(LINES, coverage_penalty=0.2)


def test_attention_of_the_last_layer_is_that_of_a_drawing(fluent):
    (model,) = Translator.load(fluent).models
    source = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
    visible, sentences = source != 0, torch.tensor([0, 0, 1])
    target_in = torch.tensor([[1, 5, 6], [1, 7, 8], [1, 9, 4]])
    weights = model.cross_weights(source, visible, target_in, sentences)
    expected = model.attention_weights(source[sentences], visible[sentences], target_in).cross[-1]
    np.testing.assert_allclose(weights.detach(), expected.detach(), atol=1e-6)


def test_the_penalty_of_the_recipe_is_kept_and_not_exported(micro, tmp_path, command):
    short = ("--set", "training.steps=2", "--set", "training.average=null", "--set", "training.validate_every=null")
    short = (*short, "--set", "decoding.extra_length=0")  # a longer output would give every source token attention
    run, change = tmp_path / "run", "decoding.coverage_penalty=0.5"
    code, _, error = command("train", micro / "recipe.yaml", "--out", run, *short, "--set", change)
    assert code == 0, error
    assert Model.read_config(run).decoding.coverage_penalty == 0.5
    assert json.loads((run / "config.json").read_text())["decoding"]["coverage_penalty"] == 0.5
    (tmp_path / "in.txt").write_text("ant bee cat dog eel fox gnu hen\n")
    kept, free = (
        command("translate", run, tmp_path / "in.txt", "--scores", *options)
        for options in ((), ("--coverage-penalty", 0))
    )
    assert (kept[0], free[0]) == (0, 0), kept[2] + free[2]
    assert kept[1] != free[1]
    code, _, error = command("export", run, "--to", "marian", "--out", tmp_path / "export")
    assert (code, "coverage_penalty" in error) == (2, True), error


def test_a_model_without_the_penalty_has_no_such_key(trained):
    assert "coverage_penalty" not in json.loads((trained / "config.json").read_text())["decoding"]
