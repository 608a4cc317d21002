"""Training (section 5): loss, optimiser, schedule and training loop; no search, no validation, no files.

Read `schedule` (5.3), `objective` (5.4), `optimiser` (5.3) and `loop` (one step); then `averaging` (6.1), `precision`,
`divergence`, `muon` for small corpora, and `sharded` for models that do not fit into one device.
"""

from transduce.training.averaging import average_weights
from transduce.training.divergence import DivergedError, DivergenceDetector, SkippedSteps, count_rollback
from transduce.training.fitting import check_memory, compile_shapes, micro_batches_on_gpu
from transduce.training.loop import StepRecord, training_steps
from transduce.training.muon import FlatMuon, flat_optimiser
from transduce.training.objective import TrainingObjective
from transduce.training.optimiser import Adam, FlatAdam, Optimiser
from transduce.training.precision import Precision
from transduce.training.schedule import EndingSchedule
from transduce.training.spec import Training

__all__ = [
    "Adam",
    "DivergedError",
    "DivergenceDetector",
    "EndingSchedule",
    "FlatAdam",
    "FlatMuon",
    "Optimiser",
    "Precision",
    "SkippedSteps",
    "StepRecord",
    "Training",
    "TrainingObjective",
    "average_weights",
    "check_memory",
    "compile_shapes",
    "count_rollback",
    "flat_optimiser",
    "micro_batches_on_gpu",
    "training_steps",
]
