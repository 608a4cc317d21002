"""What the journal makes of the steps and validations that it is given."""

import json
import math

import pytest
import torch

from transduce.corpus import Position
from transduce.measure import Score
from transduce.trainer.metrics_log import MetricsLog
from transduce.trainer.validation import ParallelText, ValidationResult
from transduce.training import StepRecord
from transduce.training.loop import DeferredMetrics


def step(number, loss, unsmoothed, norm, words, seconds, waiting):
    figures = DeferredMetrics(torch.tensor([loss, unsmoothed, norm], dtype=torch.float64))
    return StepRecord(number, figures, number / 1000, words, seconds, waiting, number // 5, Position(), False)


SKIPPED = step(5, math.nan, math.nan, math.inf, words=900, seconds=50.0, waiting=40.0)
STEPS = [
    step(4, loss=5.0, unsmoothed=4.0, norm=0.5, words=300, seconds=1.5, waiting=0.5),
    SKIPPED,
    step(6, loss=3.0, unsmoothed=1.0, norm=2.5, words=100, seconds=0.5, waiting=0.25),
]


@pytest.fixture
def said():
    return []


@pytest.fixture
def journal(tmp_path, said):
    kept = MetricsLog(tmp_path, said.append, total=9)
    yield kept
    kept.close()


def written(journal):
    return [json.loads(line) for line in journal.path.read_text().splitlines()]


def test_a_report_is_of_words_and_not_of_steps(journal, said):
    """A step that was skipped has taught nothing, and no time of it counts."""
    for record in STEPS:
        journal.note(record)
    journal.report()
    (report,) = written(journal)
    assert report == {
        "step": 6,
        "epoch": 1,
        "loss": 4.5,
        "perplexity": pytest.approx(math.exp(3.25)),
        "rate": 0.006,
        "gradient_norm": 2.5,
        "tokens": 400,
        "tokens_per_second": 200.0,
        "waiting": 0.375,
    }
    assert said == ["step 6/9  loss 4.500  perplexity 25.79  rate 6.00e-03  gradient 2.50  200 tokens/s  waiting 37.5%"]


def test_each_step_is_in_one_report(journal):
    journal.report()
    for record in STEPS:
        journal.note(record)
        journal.report()
        journal.report()
    assert [(report["step"], report["loss"]) for report in written(journal)] == [(4, 5.0), (6, 3.0)]


def test_what_happens_comes_after_the_steps_before_it(journal, said):
    journal.note(STEPS[0])
    journal.log_event(5, "skipped: its gradient was no number")
    report, event = written(journal)
    assert (report["step"], event) == (4, {"step": 5, "event": "skipped: its gradient was no number"})
    assert said[1] == "step 5: skipped: its gradient was no number"


def test_a_validation_is_written_whole_and_shows_three_translations(journal, said):
    corpus = ParallelText([f"source {place}" for place in range(8)], [f"reference {place}" for place in range(8)])
    outputs = [f"output {place}" for place in range(8)]
    found = ValidationResult(2.5, 7.25, 0.625, Score(12.345, "nrefs:1", None, None), outputs)
    journal.log_validation(6, 90.04, found, corpus)
    journal.log_validation(9, 120.0, found._replace(loss=math.inf, bleu=None, outputs=[]), corpus)
    first = {"step": 6, "validation_loss": 2.5, "validation_perplexity": 7.25, "accuracy": 0.625}
    assert written(journal) == [
        {**first, "bleu": 12.345, "signature": "nrefs:1", "elapsed": 90.0},
        # JSON knows no infinite number.
        {**first, "step": 9, "validation_loss": None, "elapsed": 120.0},
    ]
    assert said == [
        "validation after step 6: loss 2.500  perplexity 7.25  accuracy 62.5%  BLEU 12.35  (1.5 min)",
        *(f"  {what:11}{what} {place}" for place in (2, 4, 6) for what in ("source", "reference", "output")),
        "validation after step 9: loss inf  perplexity 7.25  accuracy 62.5%  (2.0 min)",
    ]
