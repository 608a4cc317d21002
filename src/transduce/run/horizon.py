"""How many steps a run takes that minutes limit, for a schedule that ends: planned from its pace, and kept.

A schedule such as `linear` must know its last step before it is reached, and a recipe of minutes does not say it. So
the pace is measured and the steps are planned three times, each time with less left to misjudge. For 100 minutes:

    minute    0 ─ 10           10 ─ 50              50 ─ 80              80 ─ 99.6       100
    rate      warm-up, peak    falls to plan 1      falls to plan 2      to plan 3: 0    the hard end
                       ↑                    ↑                    ↑
              plan 1: pace of 0-10  plan 2: of 10-50     plan 3: of 50-80

Each plan aims at 98 % of the time that is left, so that the rate reaches zero before the minutes are over: at minute
80, at 80 + 0.98 · 20 = 99.6. Say 1,010 steps are done after 600 seconds, and the last 1,000 of them took 590: plan 1
has 1,010 + 0.98 · 5,400 · 1,000 / 590 = 9,979 steps. The rate jumps at a plan, from the peak to what the schedule has
at step 1,010 of 9,979, and from then on follows it. A run that turns out faster than its first plan reaches zero early
and ends.

The first steps after a start do not count for the pace: a model may be compiled in them. A stop between two plans
begins a new window; a plan needs a window of 5 % of the minutes. A run with fewer steps than that keeps the peak.

The training state keeps the plan, so that a run that resumes goes on with the same rates.
"""

from transduce.corpus.planner import Planner
from transduce.run.build import count_steps
from transduce.run.training_state import Horizon, TrainingState
from transduce.training.schedule import EndingSchedule
from transduce.training.training_settings import Training

PLANS = (0.1, 0.5, 0.8)  # shares of the minutes after which the steps are planned, and planned again
MIN_WINDOW = 0.05  # share of the minutes over which a pace is measured, at least
# Not measured after each start, because a model may be compiled then: so many steps, or this share of the minutes.
UNMEASURED_STEPS, UNMEASURED_SHARE = 10, 0.2
PLANNED_TIME = 0.98  # share of the time left that is planned: the rate is to reach zero before the minutes are over


class HorizonPlanner:
    """Measures the pace of one start of a training and plans its steps; the same plan in all processes."""

    def __init__(self, settings: Training, planner: Planner) -> None:
        self._settings, self._planner = settings, planner
        self._steps = 0  # since the start
        self._work = 0.0  # whole steps whose pace is measured
        self._begin = 0.0  # seconds of training before them
        self._start: float | None = None  # seconds of training after the first step of this start

    def total_steps(self, state: TrainingState) -> int | None:
        """Returns the number of steps of the training as far as it is known; None if only minutes limit it."""
        limits = count_steps(self._settings, self._planner), state.planned_steps(self._settings)
        return min((steps for steps in limits if steps is not None), default=None)

    def plan(self, state: TrainingState) -> Horizon | None:
        """Returns a plan after a step after which one is due, else None; to be called after every step."""
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
