"""Validation on several corpora: means over corpora of unequal sizes, names, and the log."""

import json
import math

import pytest

from transduce.corpus.data_spec import DataSpec
from transduce.corpus.readers import ParallelText
from transduce.evaluation.validation import JointValidation, ValidationResult, ValidationScore
from transduce.run.metrics_log import MetricsLog
from transduce.settings import validated


class Known:
    """A validation with a known result."""

    def __init__(self, result, size):
        self.result, self.corpus = result, ParallelText(["source"] * size, ["target"] * size)

    def __call__(self, model, *, translate=True):
        return self.result if translate else self.result._replace(score=None, outputs=[])

    def check(self, model, *, will_translate=True):
        raise ValueError("line 3 is too long")


def joint():
    german = ValidationResult(2.0, math.exp(3.0), 0.5, ValidationScore("bleu", 30.0, "tok:13a"), ["eins"] * 3)
    chinese = ValidationResult(4.0, math.exp(5.0), 0.25, ValidationScore("bleu", 10.0, "tok:zh"), ["yi"])
    return JointValidation({"en-de": Known(german, 3), "en-zh": Known(chinese, 1)})


def test_each_corpus_counts_as_much_whatever_its_size():
    result = joint()(None)
    assert (result.loss, result.accuracy, result.score.score) == (3.0, 0.375, 20.0)
    assert result.perplexity == pytest.approx(math.exp(4.0))
    assert result.score.signature == "mean:2|tok:13a and tok:zh"
    assert result.outputs == ["eins"] * 3 + ["yi"]
    assert len(joint().corpus.source) == 4
    assert joint()(None, translate=False).score is None


def test_a_fault_names_its_corpus():
    with pytest.raises(ValueError, match="en-de: line 3 is too long"):
        joint().check(None)


def test_the_log_has_each_direction_beside_the_mean(tmp_path, log_lines):
    log = MetricsLog(tmp_path)
    log.log_validation(6, 60.0, joint()(None), joint().corpus, 3.0)
    log.close()
    record = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert {key: value for key, value in record.items() if key.startswith(("bleu", "validation_loss"))} == {
        "bleu": 20.0,
        "bleu.en-de": 30.0,
        "bleu.en-zh": 10.0,
        "validation_loss": 3.0,
        "validation_loss.en-de": 2.0,
        "validation_loss.en-zh": 4.0,
    }
    assert log_lines[0] == "validation after step 6, mean of 2: loss 3.000  perplexity 54.60  accuracy 37.5%  BLEU 20.00  (after 1.0 min, took 3.0 s)"  # fmt: skip  # noqa: E501
    assert log_lines[1] == "  en-de: loss 2.000  perplexity 20.09  accuracy 50.0%  BLEU 30.00"


def test_validations_are_named_by_direction_and_tag_and_numbered_where_equal():
    corpora = [{"tsv": "a"}, {"tsv": "b"}, {"tsv": "c", "tag": "news"}, {"tsv": "d", "direction": "backward"}]
    values = {
        "train": [{"tsv": "t", "direction": "both"}, {"tsv": "u", "tag": "news"}],
        "validation": corpora,
        "source_language": "en",
        "target_language": "de",
    }
    names = list(validated(DataSpec, values, place="recipe").named_validations)
    assert names == ["en-de", "en-de.2", "en-de-news", "de-en"]
    unnamed = validated(DataSpec, {"train": {"tsv": "t"}, "validation": [{"tsv": "v"}, {"tsv": "w"}]}, place="recipe")
    assert list(unnamed.named_validations) == ["validation", "validation.2"]
