"""The numbers that a backward pass needs, against the estimate that plans micro-batches on a GPU."""

import json

import pytest
import torch
from pydantic import TypeAdapter
from test_baselines import MEMBERS

from transduce.model.cross_entropy import Smoothing
from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary
from transduce.training.memory_check import KEPT_NUMBERS
from transduce.training.objective import TrainingObjective

ROWS = 4
# Additive attention keeps a vector for each pair of positions. The trial passes before step 1 find what does not fit.
ESTIMATED = [name for name in MEMBERS if name.startswith("transformer") and "additive" not in name]


@pytest.mark.parametrize("length", [20, 100])
@pytest.mark.parametrize("name", ESTIMATED)
def test_the_estimate_is_not_too_low(name, length):
    """Every tensor that autograd saves counts once, by its storage; the weights do not count."""
    spec = TypeAdapter(ModelSpec).validate_json(json.dumps(MEMBERS[name]))
    torch.manual_seed(1)
    model = spec.build(Vocabulary(source=30, target=30))
    objective = TrainingObjective(model, Smoothing(epsilon=0.1)).train()
    saved = {}

    def save(tensor):
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        kept.append(tensor)  # else its address could be that of another
        return tensor

    kept: list[torch.Tensor] = []
    tokens = torch.randint(4, 30, (ROWS, length))
    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        objective(tokens, tokens, tokens)
    for parameter in model.parameters():
        saved.pop(parameter.untyped_storage().data_ptr(), None)
    outputs = ROWS * length * sum(spec.multiplications(length)) / spec.d_model
    assert sum(saved.values()) / 4 <= KEPT_NUMBERS * outputs
