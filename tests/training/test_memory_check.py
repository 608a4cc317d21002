"""The number of micro-batches on a GPU, the memory check before the first step, and compiling every shape."""

import copy

import pytest
import torch

from transduce.model.cross_entropy import Smoothing
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary, build_without_weights
from transduce.paper.models.bytenet import ByteNet
from transduce.recipe.recipe import from_values
from transduce.training.memory_check import check_memory, compile_shapes, micro_batches_on_gpu
from transduce.training.objective import RDrop, TrainingObjective
from transduce.training.optimiser import Adam, FlatAdam
from transduce.training.precision import Precision
from transduce.training.training_settings import Training

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
    with pytest.raises(RuntimeError, match=r"and not one pair does: set data.max_length below"):
        check_memory(objective, FlatAdam(objective, Adam()), Shapes(), Precision("float32", CPU))


def test_other_errors_are_raised_unchanged(objective):
    objective.max_positions, objective.error = 5, ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        check_memory(objective, FlatAdam(objective, Adam()), Shapes(), Precision("float32", CPU))


GIB = 2**30


def number_on_gpu(preset, memory, processes=1, *, vocabulary=37_000, length=100, precision="bfloat16", **settings):
    recipe = from_values({"data": {"train": {"embedded": "train"}}, "model": {"preset": preset}}, [], place="here")
    model = build_without_weights(recipe.model, Vocabulary(source=vocabulary, target=vocabulary))
    return micro_batches_on_gpu(model, Training(**settings), precision, memory, length, processes)


def test_a_gpu_takes_the_paper_s_step_in_one_pass():
    assert number_on_gpu("base", 80 * GIB) == number_on_gpu("big", 80 * GIB) == 1
    assert number_on_gpu("base", 80 * GIB, batch_tokens=400_000) > 1


def test_a_step_is_cut_as_the_memory_requires():
    numbers = [number_on_gpu("big", memory * GIB) for memory in (80, 24, 16, 8, 1)]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 6, "as on a CPU, however little memory there is"
    assert number_on_gpu("big", 24 * GIB, precision="float32") > number_on_gpu("big", 24 * GIB)
    assert number_on_gpu("big", 24 * GIB, regulariser=RDrop()) > number_on_gpu("big", 24 * GIB)
    assert number_on_gpu("big", 16 * GIB, length=2000) > number_on_gpu("big", 16 * GIB)


@pytest.mark.parametrize(("memory", "processes", "number"), [(80, 8, 8), (80, 3, 3), (1, 4, 8), (1, 6, 6)])
def test_no_process_waits_for_another_s_micro_batch(memory, processes, number):
    assert number_on_gpu("big", memory * GIB, processes) == number


def test_baselines_keep_the_number_of_a_cpu():
    model = build_without_weights(ByteNet(sets=2, d_model=64), Vocabulary(source=50, target=50))
    assert micro_batches_on_gpu(model, Training(), "bfloat16", 80 * GIB, 100, 1) == 6


def test_sharded_weights_leave_memory_for_the_micro_batches():
    numbers = [number_on_gpu("big", 8 * GIB, 4, parallel=parallel) for parallel in ("replicated", "sharded")]
    assert numbers[1] <= numbers[0]
