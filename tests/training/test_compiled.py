"""Training through torch's compiler, as on a GPU, is training without it. Slow: a minute and a C++ compiler."""

import pytest
import torch
from test_loop import PAIRS, Given, objective, piece

from transduce.training import FlatAdam, Precision, Training, training_steps
from transduce.training.optimiser import Adam

CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_steps_are_eager_steps():
    pieces = [piece(PAIRS), piece(PAIRS[:3]), piece(PAIRS[1:2])]
    losses = []
    for compiled in (False, True):
        model = objective(vocabulary=10)
        if compiled:
            model.model.compile()
        steps = training_steps(model, FlatAdam(model, Adam()), Given(*pieces), Training(), Precision("float32", CPU))
        losses.append([next(steps).loss for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
