"""Training (section 5). Never searches or measures.

Read `schedule` (5.3), `objective` (5.4), `optimiser` (5.3) and `loop` (a step); then `checkpoint` and `averaging`
(6.1), `precision`, `divergence`, and what many processes need, `sharded`.
"""

from transduce.training.averaging import averaged
from transduce.training.divergence import DivergedError, Divergence, Skips, one_more_return
from transduce.training.fitting import meet_shapes, try_largest
from transduce.training.loop import StepRecord, training_steps
from transduce.training.objective import LabelSmoothing
from transduce.training.optimiser import FlatAdam, Optimiser
from transduce.training.precision import Precision
from transduce.training.spec import Training

__all__ = [
    "DivergedError",
    "Divergence",
    "FlatAdam",
    "LabelSmoothing",
    "Optimiser",
    "Precision",
    "Skips",
    "StepRecord",
    "Training",
    "averaged",
    "meet_shapes",
    "one_more_return",
    "training_steps",
    "try_largest",
]
