"""Plans how many steps a run with a time limit takes, for schedules that reach zero at the last step.

A schedule like `linear` must know its last step in advance, but a recipe with `minutes` does not name it. So the run
measures its pace and plans the steps three times, each time with less remaining time to estimate. For 100 minutes:

    minute    0 ─ 10           10 ─ 50              50 ─ 80              80 ─ 99.6       100
    rate      warm-up, peak    falls to plan 1      falls to plan 2      to plan 3: 0    the hard end
                       ↑                    ↑                    ↑
              plan 1: pace of 0-10  plan 2: of 10-50     plan 3: of 50-80

Each plan uses 98 % of the time that is left, so that the rate reaches zero before the minutes are over: the plan of
minute 80 ends at 80 + 0.98 · 20 = 99.6. Suppose 1,010 steps are done after 600 seconds, and the last 1,000 of them took
590 seconds: plan 1 has 1,010 + 0.98 · 5,400 · 1,000 / 590 = 9,979 steps. At each plan the rate jumps, here from the
peak to the schedule's rate at step 1,010 of 9,979, and then follows the schedule. If the run turns out faster than its
first plan, the rate reaches zero early and the run ends.

The first steps after a start are not measured, because a model may be compiled in them. If the run is stopped between
two plans, a new window begins. A plan needs a window of at least 5 % of the minutes, and a run that is too short for
one stays at the peak.

The training state stores the plan, so that a resumed run continues with the same rates.
"""

from transduce.corpus.planner import Planner
from transduce.run.build import count_steps
from transduce.run.training_state import Horizon, TrainingState
from transduce.training.schedule import EndingSchedule
from transduce.training.training_settings import Training

PLANS = (0.1, 0.5, 0.8)  # shares of the minutes after which the steps are planned
MIN_WINDOW = 0.05  # smallest share of the minutes over which the pace is measured
# After each start this many steps, or this share of the minutes, are not measured, because a model may be compiled in
# them.
UNMEASURED_STEPS, UNMEASURED_SHARE = 10, 0.2
PLANNED_TIME = 0.98  # share of the time left that is planned, so that the rate reaches zero before the time is over


class HorizonPlanner:
    """Measures the pace since the start of this process and plans the run's steps; all processes get the same plan."""

    def __init__(self, settings: Training, planner: Planner) -> None:
        self._settings, self._planner = settings, planner
        self._steps = 0  # since the start
        self._work = 0.0  # full-size steps that are measured
        self._begin = 0.0  # seconds of training before the measured steps
        self._start: float | None = None  # seconds of training after the first step of this start

    def total_steps(self, state: TrainingState) -> int | None:
        """Returns the number of steps of the run as far as it is known; None if only minutes limit the run."""
        limits = count_steps(self._settings, self._planner), state.planned_steps(self._settings)
        return min((steps for steps in limits if steps is not None), default=None)

    def plan(self, state: TrainingState) -> Horizon | None:
        """Returns a new plan if one is due, else None; must be called after every step."""
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
