"""Compiled training steps, as on a GPU, equal eager ones. Needs a minute and a C++ compiler."""

import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own, because the shape checks of the tests break the compiler.
PROGRAM = """
import torch
from test_loop import PAIRS, OneStepPlanner, objective, micro_batch
from transduce.training.loop import training_steps
from transduce.training.optimiser import Adam, FlatAdam
from transduce.training.precision import Precision
from transduce.training.training_settings import Training

micro_batches = [micro_batch(PAIRS), micro_batch(PAIRS[:3]), micro_batch(PAIRS[1:2])]
for compiled in (False, True):
    model = objective(vocabulary=10)
    optimiser = FlatAdam(model, Adam())
    if compiled:
        model.model.compile()
    precision = Precision("float32", torch.device("cpu"))
    steps = training_steps(model, optimiser, OneStepPlanner(*micro_batches), Training(), precision)
    print(*(next(steps).loss for _ in range(4)))
"""


@pytest.mark.slow
def test_compiled_steps_equal_eager_steps():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    eager, compiled = ([float(loss) for loss in line.split()] for line in done.stdout.splitlines())
    assert len(eager) == 4
    assert compiled == pytest.approx(eager, rel=1e-4)
