"""Records and console lines of the metrics log."""

import errno
import json
import math
import os
import resource
import signal
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from transduce.corpus.planner import Position
from transduce.corpus.readers import ParallelText
from transduce.evaluation.validation import ValidationResult, ValidationScore
from transduce.run.metrics_log import MetricsLog
from transduce.storage.locks import FolderMovedError
from transduce.training.loop import DeferredMetrics, StepRecord


def step(number, loss, unsmoothed, norm, tokens, seconds, waiting):
    metrics = DeferredMetrics(torch.tensor([loss, unsmoothed, norm], dtype=torch.float64))
    return StepRecord(number, metrics, number / 1000, tokens, seconds, waiting, number // 5, Position(), False)


SKIPPED = step(5, math.nan, math.nan, math.inf, tokens=900, seconds=50.0, waiting=40.0)
STEPS = [
    step(4, loss=5.0, unsmoothed=4.0, norm=0.5, tokens=300, seconds=1.5, waiting=0.5),
    SKIPPED,
    step(6, loss=3.0, unsmoothed=1.0, norm=2.5, tokens=100, seconds=0.5, waiting=0.25),
]


@pytest.fixture
def metrics_log(tmp_path, log_lines):
    log = MetricsLog(tmp_path)
    log.total, log.elapsed = 9, 90.0
    yield log
    log.close()


def records(metrics_log):
    return [json.loads(line) for line in metrics_log.path.read_text().splitlines()]


def test_a_report_weights_steps_by_their_tokens(metrics_log, log_lines):
    """Neither loss nor time of a skipped step counts."""
    for record in STEPS:
        metrics_log.add_step(record)
    metrics_log.report()
    (report,) = records(metrics_log)
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
    assert log_lines == [
        "step 6/9  loss 4.500  perplexity 25.79  rate 6.00e-03  gradient 2.50  200 tokens/s  waiting 37.5%  "
        "1.5 min, about 0 left"
    ]


@pytest.mark.parametrize(
    ("minutes", "total", "shown"),
    [(60, 9, "1.5 of 60 min"), (None, 1206, "1.5 min, about 20 left"), (None, None, "1.5 min")],
)
def test_a_report_says_how_long_the_training_has_run_and_how_long_it_will(tmp_path, minutes, total, shown):
    """Two steps of a second each."""
    log = MetricsLog(tmp_path, minutes)
    log.total, log.elapsed = total, 90.0
    for record in STEPS:
        log.add_step(record)
    log.report()
    assert log.summary.endswith(f", {shown}")
    log.close()


def test_each_step_is_in_one_report(metrics_log):
    metrics_log.report()
    for record in STEPS:
        metrics_log.add_step(record)
        metrics_log.report()
        metrics_log.report()
    assert [(report["step"], report["loss"]) for report in records(metrics_log)] == [(4, 5.0), (6, 3.0)]


def test_an_event_is_logged_after_the_steps_before_it(metrics_log, log_lines):
    metrics_log.add_step(STEPS[0])
    metrics_log.log_event(5, "skipped: its gradient was not finite")
    report, event = records(metrics_log)
    assert (report["step"], event) == (4, {"step": 5, "event": "skipped: its gradient was not finite"})
    assert log_lines[1] == "step 5: skipped: its gradient was not finite"


def test_a_validation_logs_its_result_and_three_translations(metrics_log, log_lines):
    corpus = ParallelText([f"source {place}" for place in range(8)], [f"reference {place}" for place in range(8)])
    outputs = [f"output {place}" for place in range(8)]
    result = ValidationResult(2.5, 7.25, 0.625, ValidationScore("bleu", 12.345, "nrefs:1"), outputs)
    metrics_log.log_validation(6, 90.04, result, corpus, 8.26)
    metrics_log.log_validation(9, 120.0, result._replace(loss=math.inf, score=None, outputs=[]), corpus, 2)
    first = {"step": 6, "validation_loss": 2.5, "validation_perplexity": 7.25, "accuracy": 0.625}
    assert records(metrics_log) == [
        {**first, "bleu": 12.345, "signature": "nrefs:1", "validation_seconds": 8.3, "elapsed": 90.0},
        # JSON knows no infinite number.
        {**first, "step": 9, "validation_loss": None, "validation_seconds": 2, "elapsed": 120.0},
    ]
    assert log_lines == [
        "validation after step 6: loss 2.500  perplexity 7.25  accuracy 62.5%  BLEU 12.35  (after 1.5 min, took 8.3 s)",
        *(f"  {kind:11}{kind} {place}" for place in (2, 4, 6) for kind in ("source", "reference", "output")),
        "validation after step 9: loss inf  perplexity 7.25  accuracy 62.5%  (after 2.0 min, took 2.0 s)",
    ]


def test_tensorboard_shows_the_values_that_count(tmp_path, log_lines):
    """Those of steps after the last checkpoint are hidden when the training is resumed."""
    for purged, values in ((0, {1: 5.0, 2: 4.0, 3: 3.0}), (1, {2: 4.5})):
        log = MetricsLog(tmp_path)
        log.truncate(10**6, purged)
        for number, loss in values.items():
            log.add_step(step(number, loss, loss, 1.0, tokens=10, seconds=1.0, waiting=0.0))
            log.report()
        log.close()
    shown = EventAccumulator(str(tmp_path / "training" / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in shown.Scalars("loss")] == [(1, 5.0), (2, 4.5)]
    assert set(shown.Tags()["scalars"]) == {*records(log)[0]} - {"step"}


def test_a_full_disk_is_a_warning_and_tensorboard_goes_on(tmp_path, log_lines, capfd):
    """A limit on the size of files fails the write as a full disk does."""
    log = MetricsLog(tmp_path)
    log.truncate(0, 0)
    ignored, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for number, size in ((4, limits[0]), (5, 0), (6, limits[0])):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            log.add_step(step(number, 5.0, 4.0, 0.5, tokens=10, seconds=1.0, waiting=0.0))
            log.report()
            time.sleep(0.1)
        log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert sum("could not write for TensorBoard" in line for line in log_lines) == 1
    assert capfd.readouterr().err == ""
    assert len([*(tmp_path / "training" / "tensorboard").iterdir()]) == 2
    shown = EventAccumulator(str(tmp_path / "training" / "tensorboard")).Reload()
    assert [event.step for event in shown.Scalars("loss")] == [4, 6]


@pytest.mark.parametrize("plant", [lambda path: path.symlink_to("nowhere"), os.mkfifo, Path.mkdir])
def test_a_link_a_pipe_or_a_folder_in_its_place_is_refused(plant, tmp_path):
    plant(tmp_path / "metrics.jsonl")
    with pytest.raises(ValueError, match=r"metrics\.jsonl is a link, a pipe or a folder"):
        MetricsLog(tmp_path).truncate(0, 0)
    assert not (tmp_path / "nowhere").exists()


def test_a_copy_of_hard_links_keeps_its_log_when_the_run_is_resumed(metrics_log, tmp_path):
    log, copy = metrics_log, tmp_path / "copy.jsonl"
    log.path.write_text('{"step": 1}\n{"step": 2}\n')
    os.link(log.path, copy)
    log.truncate(12, step=1)
    log.log_event(2, "resumed")
    assert [record["step"] for record in records(log)] == [1, 2]
    assert copy.read_text() == '{"step": 1}\n{"step": 2}\n'


@pytest.mark.parametrize("replacement", [None, "folder", "file"])
def test_nothing_is_written_where_a_run_was_before_it_was_moved(replacement, tmp_path, log_lines):
    log = MetricsLog(tmp_path / "run", enabled=False)
    (tmp_path / "run").mkdir()
    log = MetricsLog(tmp_path / "run")
    log.log_event(1, "begun")
    (tmp_path / "run").rename(tmp_path / "moved")
    if replacement == "folder":
        (tmp_path / "run").mkdir()
    elif replacement == "file":
        (tmp_path / "run").touch()
    for write in (log.flush, lambda: log.log_event(2, "lost")):
        with pytest.raises(FolderMovedError, match="run was moved, replaced or removed during the training"):
            write()
    log.close()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    assert len((tmp_path / "moved" / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_file_system_that_does_not_answer_ends_no_training(metrics_log):
    metrics_log._folder.folder = Mock(stat=Mock(side_effect=OSError(errno.EIO, "I/O error")))
    metrics_log.log_event(1, "goes on")
    assert len(records(metrics_log)) == 1


def test_without_tensorboard_the_log_is_written_alone(tmp_path, monkeypatch, log_lines):
    monkeypatch.setattr("transduce.run.metrics_log.find_spec", lambda name: None)
    log = MetricsLog(tmp_path)
    log.add_step(STEPS[0])
    log.report()
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    assert not [line for line in log_lines if "warning" in line]
