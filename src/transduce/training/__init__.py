"""Training (section 5): objective, schedule, optimiser, step, loop, checkpoints. Never searches or measures."""

from transduce.training.averaging import averaged
from transduce.training.checkpoint import Checkpoint, Checkpoints, DamagedError
from transduce.training.loop import DivergedError, StepRecord, training_steps
from transduce.training.objective import LabelSmoothing
from transduce.training.optimiser import FlatAdam
from transduce.training.precision import Precision
from transduce.training.spec import Training

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "DamagedError",
    "DivergedError",
    "FlatAdam",
    "LabelSmoothing",
    "Precision",
    "StepRecord",
    "Training",
    "averaged",
    "training_steps",
]
