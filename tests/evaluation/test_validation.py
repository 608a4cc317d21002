"""Validation against losses computed sentence by sentence."""

import math

import pytest
import torch
from torch.nn import functional

from transduce.corpus.corpus_kinds import Files, Tmx, Tsv
from transduce.corpus.readers import ParallelText, read_parallel_text
from transduce.evaluation.validation import Validation, perplexity
from transduce.measure.scoring import scores
from transduce.model.cross_entropy import Smoothing
from transduce.model_directory.model import Model
from transduce.recipe.corpora_of_run import named_test_set
from transduce.translation.translator import Translator

LINES = ParallelText(
    ["ant bee cat", "owl", "gnu hen ibis jay kite lark mole", "pig pig"],
    ["tna eeb tac.", "lwo.", "ung neh sibi yaj etik kral elom.", "gip gip"],
)


@pytest.fixture(scope="module")
def model(fluent):
    return Model.read(fluent)


def validation(model, smoothing=None, **options):
    smoothing = smoothing or Smoothing(epsilon=0.1)
    return Validation(LINES, model.source, model.target, model.config.decoding, smoothing, **options)


@pytest.mark.parametrize(("batch_tokens", "source_tags"), [(2048, ()), (2048, (7,)), (12, ())])
@pytest.mark.parametrize("smoothing", [Smoothing(), Smoothing(epsilon=0.1), Smoothing(epsilon=0.2, over="others")])
def test_loss_perplexity_and_accuracy(model, smoothing, batch_tokens, source_tags, monkeypatch):
    """Batches of 12 positions have a pair each."""
    monkeypatch.setattr("transduce.evaluation.validation.BATCH_TOKENS", batch_tokens)
    smoothed = unsmoothed = correct = tokens = 0.0
    for source, target in zip(model.source.encode(LINES.source), model.target.encode(LINES.target), strict=True):
        rectangle = torch.tensor([[*source_tags, *source, 2]])
        with torch.no_grad():
            decoded = model.module(rectangle, rectangle > 0, torch.tensor([[1, *target]]))
            logits = (decoded.states[0] @ model.module.readout.weight.T).double()
        expected = torch.tensor([*target, 2])
        vocabulary = logits.shape[1]
        others = vocabulary if smoothing.over == "all" else vocabulary - 1
        share = torch.full_like(logits, smoothing.epsilon / others)
        target_share = smoothing.epsilon / vocabulary if smoothing.over == "all" else 0.0
        share[range(len(expected)), expected] = 1 - smoothing.epsilon + target_share
        smoothed -= float((share * logits.log_softmax(-1)).sum())
        unsmoothed += float(functional.cross_entropy(logits, expected, reduction="sum"))
        correct += int((logits.argmax(-1) == expected).sum())
        tokens += len(expected)
    result = validation(model, smoothing, source_tags=source_tags)(model.module)
    assert result.loss == pytest.approx(smoothed / tokens, rel=1e-5)
    assert result.perplexity == pytest.approx(math.exp(unsmoothed / tokens), rel=1e-5)
    assert result.accuracy == correct / tokens
    assert 0.2 < result.accuracy < 1


@pytest.mark.parametrize("source_tags", [(), (7,)])
def test_bleu_is_of_the_translations(fluent, model, source_tags):
    """The lines are translated in another order, by length."""
    result = validation(model, source_tags=source_tags)(model.module)
    translator = Translator.load(fluent).with_source_tags(source_tags)
    assert result.outputs == [translator.translate(line) for line in LINES.source]
    assert result.score.score == scores(result.outputs, [LINES.target])["bleu"].score > 0


def test_a_validation_without_translations(model):
    result = validation(model)(model.module)
    untranslated = validation(model)(model.module, translate=False)
    assert (untranslated.score, untranslated.outputs, untranslated.loss) == (None, [], result.loss)


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_stays_unchanged(model, training, monkeypatch):
    model.module.train(training)
    validation(model)(model.module, translate=False)
    assert model.module.training is training
    monkeypatch.setattr(type(model.module.readout), "evaluate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        validation(model)(model.module, translate=False)
    assert model.module.training is training
    model.module.eval()


def test_validation_does_not_call_the_compiled_model(model, monkeypatch):
    expected = validation(model)(model.module)
    monkeypatch.setattr(model.module, "_compiled_call_impl", lambda *_: pytest.fail("compiles for validation's shapes"))
    assert validation(model)(model.module) == expected


def test_dropout_is_off_while_validating(trained):
    model = Model.read(trained)
    first = validation(model)(model.module, translate=False)
    second = validation(model)(model.module.train(), translate=False)
    assert first == second


def test_named_test_sets(trained, micro):
    languages = {"source_language": "en", "target_language": "de"}
    spare = Files(source=str(micro / "test.en"), target=str(micro / "test.de"), **languages)
    assert named_test_set(trained, "spare") == spare
    assert len(read_parallel_text(named_test_set(trained, "validation")).target) == 7
    with pytest.raises(ValueError, match=r"--test none: .*recipe.yaml names spare, validation"):
        named_test_set(trained, "none")


def test_perplexity_beyond_a_float_is_infinite():
    assert (perplexity(0.0), perplexity(1e6)) == (1.0, math.inf)


def test_bleu_uses_the_tokenizer_of_the_language(model):
    chinese = Validation(
        LINES, model.source, model.target, model.config.decoding, Smoothing(epsilon=0.1), language="zh"
    )
    assert "tok:zh" in chinese(model.module).score.signature
    assert "tok:13a" in validation(model)(model.module).score.signature


def test_a_training_that_cannot_measure_its_language_does_not_begin(model, monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    japanese = Validation(
        LINES, model.source, model.target, model.config.decoding, Smoothing(epsilon=0.1), language="ja"
    )
    with pytest.raises(ValueError, match=r"`pip install '\.\[japanese\]'`"):
        japanese.check(model.module)
    japanese.check(model.module, will_translate=False)


BLANKS = [("owl", "lwo"), ("", "ung"), ("pig", " "), ("", ""), ("hen", "neh")]


def test_pairs_that_lack_a_side_stay_in_files_and_tables(tmp_path):
    for side, path in enumerate((tmp_path / "test.en", tmp_path / "test.de")):
        path.write_text("".join(f"{pair[side]}\n" for pair in BLANKS))
    (tmp_path / "test.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in BLANKS))
    for corpus in (Files(source=f"{tmp_path}/test.en", target=f"{tmp_path}/test.de"), Tsv(tsv=f"{tmp_path}/test.tsv")):
        assert list(zip(*read_parallel_text(corpus), strict=True)) == BLANKS


def test_pairs_that_lack_a_side_are_left_out_of_tmx(tmp_path):
    sides = [("en", source, "de", target) for source, target in BLANKS]
    units = [
        "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in zip(unit[::2], unit[1::2]))
        for unit in sides
    ]
    body = "".join(f"<tu>{unit}</tu>" for unit in units)
    (tmp_path / "test.tmx").write_text(f'<tmx version="1.4"><header/><body>{body}</body></tmx>')
    corpus = Tmx(tmx=f"{tmp_path}/test.tmx", languages=("en", "de"))
    assert list(zip(*read_parallel_text(corpus), strict=True)) == [BLANKS[0], BLANKS[-1]]


def test_markup_is_refused(tmp_path):
    for side in ("en", "de"):
        (tmp_path / f"test.{side}").write_text('<seg id="1">An owl.</seg>\n')
    (tmp_path / "test.tsv").write_text('An owl.\t<seg id="1">Eine Eule.</seg>\n')
    for corpus in (Files(source=f"{tmp_path}/test.en", target=f"{tmp_path}/test.de"), Tsv(tsv=f"{tmp_path}/test.tsv")):
        with pytest.raises(ValueError, match="line 1 is markup, not text"):
            read_parallel_text(corpus)
