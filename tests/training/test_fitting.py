"""The memory check before the first step, and compiling every shape."""

import copy

import pytest
import torch

from transduce.model import Transformer, Vocabulary
from transduce.model.cross_entropy import Smoothing
from transduce.training import FlatAdam, Precision, TrainingObjective, check_memory, compile_shapes
from transduce.training.optimiser import Adam

CPU = torch.device("cpu")
SPEC = {
    "d_model": 12,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "mixer": {"kind": "attention", "heads": 2, "d_k": 3, "d_v": 5},
    "cross": {"kind": "attention", "heads": 3, "d_k": 4, "d_v": 2},
    "feed_forward": {"kind": "feed_forward", "d_ff": 20},
}


class Shapes:
    """A planner with nothing but shapes."""

    micro_batches = 2
    shapes = ((64, 8), (24, 24), (8, 60))

    def rows_with(self, micro_batches, length):
        return {length: rows for rows, length in self.shapes}[length] * self.micro_batches // micro_batches


class LimitedMemory(TrainingObjective):
    """An objective that runs out of memory above `max_positions` positions."""

    max_positions = 10**9
    error: type[RuntimeError] = torch.OutOfMemoryError
    seen: list[tuple[int, int]]

    def forward(self, source, target_in, target_out):
        self.seen.append(tuple(source.shape))
        if source.numel() > self.max_positions:
            message = "you tried to allocate: can't allocate memory" if self.error is RuntimeError else "refused"
            raise self.error(message)
        return super().forward(source, target_in, target_out)


@pytest.fixture
def objective():
    torch.manual_seed(1)
    limited = LimitedMemory(Transformer(**SPEC).build(Vocabulary(source=40, target=40)), Smoothing(epsilon=0.1)).train()
    limited.seen = []
    return limited


def test_the_memory_check_tries_the_largest_shapes_and_changes_nothing(objective):
    optimiser = FlatAdam(objective, Adam())
    before = copy.deepcopy((optimiser.vector, optimiser.gradient, optimiser.state()))
    check_memory(objective, optimiser, Shapes(), Precision("float32", CPU))
    assert sorted(objective.seen) == [(8, 60), (24, 24)]  # most positions times length, and most positions
    assert torch.equal(optimiser.vector, before[0])
    assert torch.equal(optimiser.gradient, before[1])
    assert all(torch.equal(tensor, before[2][name]) for name, tensor in optimiser.state().items())


def test_compiling_computes_every_shape_and_changes_nothing(objective):
    optimiser = FlatAdam(objective, Adam())
    before = optimiser.vector.clone()
    compile_shapes(objective, optimiser, Shapes(), Precision("float32", CPU))
    assert objective.seen == [*Shapes.shapes]
    assert torch.equal(optimiser.vector, before)
    assert not optimiser.gradient.any()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
@pytest.mark.parametrize(("max_positions", "micro_batches"), [(500, 4), (200, 8), (100, 16)])
def test_the_message_names_the_setting_that_fits(objective, max_positions, micro_batches, error):
    objective.max_positions, objective.error = max_positions, error
    with pytest.raises(
        RuntimeError, match=rf"do not fit into the memory of cpu: set training.micro_batches: {micro_batches} "
    ):
        check_memory(objective, FlatAdam(objective, Adam()), Shapes(), Precision("float32", CPU))


def test_the_message_where_not_one_pair_fits(objective):
    objective.max_positions = 5
    with pytest.raises(RuntimeError, match=r"and not one pair does: set data.longest below"):
        check_memory(objective, FlatAdam(objective, Adam()), Shapes(), Precision("float32", CPU))


def test_other_errors_are_raised_unchanged(objective):
    objective.max_positions, objective.error = 5, ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        check_memory(objective, FlatAdam(objective, Adam()), Shapes(), Precision("float32", CPU))
