"""Estimates the total number of steps of a run with a time limit, for schedules that decay to zero at the last step.

A schedule such as `linear` needs to know the last step in advance, but a recipe that sets `minutes` does not say how
many steps the run will take. The run therefore measures its pace and plans the total number of steps three times. Each
plan is more accurate than the one before, because it extrapolates over less time. For 100 minutes:

    minute          0 ─ 10           10 ─ 50              50 ─ 80              80 ─ 99.6       100
    learning rate   warm-up, peak    follows plan 1       follows plan 2       plan 3, to 0    time limit
                             ↑                    ↑                    ↑
                    plan 1: pace of 0-10  plan 2: of 10-50     plan 3: of 50-80

Each plan uses only 98 % of the remaining time, so that the learning rate reaches zero before the time limit: the plan
made at minute 80 ends at 80 + 0.98 · 20 = 99.6 minutes. For example, if 1,010 steps are done after 600 seconds and the
last 1,000 of them took 590 seconds, plan 1 has 1,010 + 0.98 · 5,400 · 1,000 / 590 = 9,979 steps.

Whenever a plan is made, the learning rate jumps, in this example from the peak to the rate of step 1,010 of 9,979, and
follows the schedule from there. If training is faster than planned, the learning rate reaches zero early, and the run
ends at that point.

The first steps after each start are not measured, because they may include the compilation of the model. If the run is
stopped between two plans, the measurement begins again when it is resumed. A plan requires a measurement over at least
5 % of the time limit; a run that is too short for this keeps the peak learning rate.

The plan is part of the training state, so a resumed run continues with the same learning rates.
"""

from transduce.corpus.planner import Planner
from transduce.run.build import count_steps
from transduce.run.training_state import Horizon, TrainingState
from transduce.training.schedule import EndingSchedule
from transduce.training.training_settings import Training

PLANS = (0.1, 0.5, 0.8)  # fractions of the time limit after which the total number of steps is planned
MIN_WINDOW = 0.05  # the pace is measured over at least this fraction of the time limit
# After each start, the first steps are not measured, because they may include the compilation of the model: this many
# steps, or those in this fraction of the time limit, whichever are fewer.
UNMEASURED_STEPS, UNMEASURED_SHARE = 10, 0.2
PLANNED_TIME = 0.98  # fraction of the remaining time that a plan uses, so that the rate reaches zero in time


class HorizonPlanner:
    """Measures the training pace since this process started, and plans the total number of steps of the run.

    All processes of a run compute the same plan.
    """

    def __init__(self, settings: Training, planner: Planner) -> None:
        self._settings, self._planner = settings, planner
        self._steps = 0  # steps since this process started
        self._work = 0.0  # measured steps; the smaller steps of a batch ramp count as fractions
        self._begin = 0.0  # training time of the run, in seconds, when the measurement began
        self._start: float | None = None  # training time of the run, in seconds, after the first step of this process

    def total_steps(self, state: TrainingState) -> int | None:
        """Returns the total number of steps of the run: the smaller of the recipe's limit and the current plan.

        Returns None if there is neither, for example before the first plan of a run that only `minutes` limits.
        """
        limits = count_steps(self._settings, self._planner), state.planned_steps(self._settings)
        return min((steps for steps in limits if steps is not None), default=None)

    def plan(self, state: TrainingState) -> Horizon | None:
        """Returns a new plan if one is due after this step, else None.

        This method must be called after every step. It always returns None if the run has no time limit, or if its
        schedule does not decay to zero.
        """
        minutes = self._settings.minutes
        if minutes is None or not isinstance(self._settings.schedule, EndingSchedule):
            return None
        self._steps += 1
        if self._start is None:
            self._start = state.elapsed
        if self._steps <= UNMEASURED_STEPS and state.elapsed - self._start < UNMEASURED_SHARE * 60 * minutes:
            self._begin = state.elapsed
            return None
        ramp = self._planner.ramp
        self._work += 1.0 if ramp is None else ramp.parts_of(state.step) / ramp.parts
        limit, plans = 60 * minutes, state.horizon.plans if state.horizon else 0
        seconds = state.elapsed - self._begin
        if plans == len(PLANS) or state.elapsed < PLANS[plans] * limit or seconds < MIN_WINDOW * limit:
            return None
        left = PLANNED_TIME * max(limit - state.elapsed, 0.0) / seconds * self._work
        steps = int(state.step + left if ramp is None else ramp.steps_after(state.step, left))
        self._work, self._begin = 0.0, state.elapsed
        return Horizon(steps, minutes, plans + 1)
