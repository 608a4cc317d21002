"""How many steps a schedule that ends takes within the minutes of a training, and that a resumed run keeps them."""

import itertools
import json
import signal
from types import SimpleNamespace

import pytest

from micro_run import Moment, forked
from transduce.corpus.batch_ramp import BatchRamp
from transduce.recipe.recipe import load
from transduce.run.horizon import HorizonPlanner
from transduce.run.train import run_training, train
from transduce.run.training_state import Horizon, TrainingState
from transduce.training.schedule import Constant, LinearDecay
from transduce.training.training_settings import Training

LINEAR = LinearDecay(warmup=5, peak=0.01)


def plans_of(seconds_of, *, minutes=10.0, ramp=None, begin=None, **settings):
    """Returns (step, planned steps) of each plan, and the state at the end; `seconds_of` gives those of each step."""
    training = Training(schedule=LINEAR, minutes=minutes, **{"steps": None, **settings})
    horizon = HorizonPlanner(training, SimpleNamespace(ramp=ramp, steps_per_epoch=7))
    state, plans = begin or TrainingState(), []
    while not state.end_reason(training):
        state = state._replace(step=state.step + 1, elapsed=state.elapsed + seconds_of(state.step + 1))
        if plan := horizon.plan(state):
            state = state._replace(horizon=plan)
            plans.append((state.step, horizon.total_steps(state)))
    return plans, state


def test_a_steady_pace_is_planned_at_a_tenth_at_half_and_at_four_fifths_of_the_minutes():
    """600 steps fit into ten minutes. 2 % of the time left is spared."""
    plans, state = plans_of(lambda step: 1.0)
    assert plans == [(60, 60 + 529), (300, 300 + 294), (480, 480 + 117)]
    assert state.end_reason(Training(schedule=LINEAR, minutes=10.0)) == "the rate has reached zero, after 597 steps"


def test_the_first_steps_after_a_start_do_not_count():
    """A model is compiled in them."""
    plans, _ = plans_of(lambda step: 20.0 if step < 4 else 0.5)
    first, planned = plans[0]
    seconds = 60 + 0.5 * (first - 3)
    assert planned == first + int(0.98 * (600 - seconds) / 0.5)


def test_few_long_steps_are_planned_too():
    """Each takes a 15th of the time."""
    plans, state = plans_of(lambda step: 40.0)
    assert plans[0][1] in (13, 14, 15)
    assert "the rate has reached zero" in state.end_reason(Training(schedule=LINEAR, minutes=10.0))


def test_a_machine_that_slows_down_is_planned_again():
    plans, state = plans_of(lambda step: 1.0 if step < 200 else 2.0)
    assert plans == [(60, 589), (250, 250 + int(0.98 * (600 - 301) * 190 / 241)), (340, 340 + int(0.98 * 119 / 2))]
    assert state.elapsed < 600
    assert state.end_reason(Training(schedule=LINEAR, minutes=10.0)) == "the rate has reached zero, after 398 steps"


def test_a_machine_that_slows_down_after_the_last_plan_is_stopped_by_the_minutes():
    plans, state = plans_of(lambda step: 1.0 if step < 500 else 2.0)
    assert state.elapsed >= 600
    reason = state.end_reason(Training(schedule=LINEAR, minutes=10.0))
    assert reason == f"10 minutes are over, after {state.step} of {plans[-1][1]} planned steps"


def test_steps_and_epochs_limit_a_plan():
    assert plans_of(lambda step: 1.0, steps=400)[1].step == 400
    assert [planned for _, planned in plans_of(lambda step: 1.0, epochs=50)[0]] == [350, 350, 350]
    training = Training(schedule=LINEAR, minutes=10.0, steps=None)
    planner = SimpleNamespace(ramp=None, steps_per_epoch=7)
    assert HorizonPlanner(training, planner).total_steps(TrainingState()) is None


def test_the_pace_of_a_ramp_is_that_of_its_tokens():
    """A whole step takes 4 seconds, the first steps take one each; 600 seconds have 17 + 34 small steps, then whole."""
    ramp = BatchRamp(start=1000, end=4000, steps=50)
    plans, state = plans_of(lambda step: float(ramp.parts_of(step)), ramp=ramp)
    elapsed = sum(map(ramp.parts_of, range(1, state.step + 1)))
    assert 0.97 * 600 < elapsed < 600
    assert len(plans) == 3
    assert plans[0][1] == pytest.approx(state.step, abs=4)
    assert ramp.parts_of(plans[0][0]) < 4


def test_other_minutes_scale_the_plan():
    training = Training(schedule=LINEAR, minutes=15.0, steps=None)
    state = TrainingState(step=594, elapsed=590.0, horizon=Horizon(594, 10.0, 2))
    assert state.planned_steps(training) == 891
    assert state.end_reason(training) is None
    for other in (training.model_copy(update={"minutes": None}), training.model_copy(update={"schedule": Constant()})):
        assert state.planned_steps(other) is None


def test_a_schedule_without_an_end_is_not_planned():
    training = Training(schedule=Constant(), minutes=1.0)
    horizon = HorizonPlanner(training, SimpleNamespace(ramp=None))
    states = (TrainingState(step=step, elapsed=float(step)) for step in range(60))
    assert not any(map(horizon.plan, states))


RAMP = "training.batch_tokens={start: 128, end: 512, steps: 9}"

SCHEDULES = [
    ["training.schedule={kind: linear, warmup: 3, peak: 0.01}"],
    ["training.schedule={kind: cosine, warmup: 3, peak: 0.01}", RAMP],
    ["training.schedule={kind: wsd, warmup: 3, peak: 0.01, decay: 0.6}", RAMP, "training.micro_batches=1"],
]


@pytest.mark.parametrize(
    "changes", [SCHEDULES[2], *(pytest.param(changes, marks=pytest.mark.slow) for changes in SCHEDULES[:2])]
)
def test_a_run_that_is_killed_ends_bit_identical(micro, tmp_path, changes):
    def run(out, moment=None):
        options = [f"--set={change}" for change in changes]
        return forked("train", micro / "recipe.yaml", "--out", tmp_path / out, *options, moment=moment)

    ended = run("straight")
    assert ended.code == 0, ended.error
    assert run("killed", Moment("step 10/12")).code == -signal.SIGKILL
    ended = run("killed")
    assert ended.code == 0, ended.error
    assert "going on after step 8" in ended.error
    content = [(tmp_path / run / "training" / "step-00000012" / "model.safetensors").read_bytes() for run in RUNS]
    assert content[0] == content[1]
    assert [record["rate"] for record in records(tmp_path / "killed")][-1] == 0
    assert records(tmp_path / "killed") == records(tmp_path / "straight")


RUNS = ("straight", "killed")


def records(out):
    """Returns step, rate and loss of each report of a run."""
    values = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [{key: each[key] for key in ("step", "rate", "loss", "tokens")} for each in values if "rate" in each]


@pytest.fixture
def clock(monkeypatch):
    """A clock for trainings: a step takes a second."""

    def work_time():
        seconds = itertools.count(1.0)
        return SimpleNamespace(seconds=lambda: next(seconds), close=lambda: None)

    monkeypatch.setattr("transduce.run.training_state.WorkTime", work_time)


MINUTES = [
    "training.schedule={kind: linear, warmup: 3, peak: 0.01}",
    "training.steps=null",
    "training.minutes=1",
    "training.validate_every=null",
    "training.save_every=10",
    "training.log_every=1",
    "training.batch_tokens=128",
    "training.micro_batches=1",
]


def test_a_plan_of_minutes_is_kept_by_a_run_that_resumes(micro, tmp_path, clock, log_lines):
    """A step takes a second, and so does each checkpoint, after ten steps; the run is stopped after step 52."""
    recipe = load(micro / "recipe.yaml", MINUTES)
    straight = run_training(recipe, tmp_path / "straight")
    assert straight.reason == "the rate has reached zero, after 54 steps"
    assert [line for line in log_lines if "at this speed" in line] == [
        "step 12: at this speed, the training ends at step 42, where the rate is zero",
        "step 28: at this speed, the training ends at step 55, where the rate is zero",
        "step 44: at this speed, the training ends at step 54, where the rate is zero",
    ]
    stopped = train(recipe, tmp_path / "killed")
    assert [record.step for record in itertools.islice(stopped, 52)] == list(range(1, 53))
    stopped.close()
    state = json.loads((tmp_path / "killed" / "training" / "step-00000050" / "state.json").read_text())
    assert state["training"]["horizon"] == [54, 1.0, 3]
    assert run_training(recipe, tmp_path / "killed").reason == straight.reason
    assert records(tmp_path / "killed") == records(tmp_path / "straight")
    rates = [record["rate"] for record in records(tmp_path / "killed")]
    assert rates[2:12] == [0.01] * 10, "until the steps are planned"
    expected = {13: (42 - 13) / (42 - 3), 29: (55 - 29) / (55 - 3), 45: (54 - 45) / (54 - 3), 54: 0}
    assert [rates[step - 1] for step in expected] == pytest.approx([0.01 * share for share in expected.values()])


def test_more_minutes_raise_the_rate_again(micro, tmp_path, clock):
    run_training(load(micro / "recipe.yaml", MINUTES), tmp_path)
    result = run_training(load(micro / "recipe.yaml", [*MINUTES, "training.minutes=1.5"]), tmp_path)
    assert result.reason == "the rate has reached zero, after 81 steps"
    assert records(tmp_path)[59]["rate"] == pytest.approx(0.01 * (81 - 60) / (81 - 3))
