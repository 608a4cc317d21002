"""The training loop: steps, their records, and resuming."""

import itertools
import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from transduce.corpus.corpus_kinds import Files
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.planner import MicroBatch, PlannedStep, Planner, Position
from transduce.corpus.store.preparation import prepare
from transduce.model.cross_entropy import Smoothing
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.run.checkpoints import Checkpoint, Checkpoints
from transduce.text.subword_training import Bpe
from transduce.training.loop import _prefetched, training_steps
from transduce.training.objective import TrainingObjective
from transduce.training.optimiser import Adam, FlatAdam
from transduce.training.precision import Precision
from transduce.training.training_settings import Training

CPU = torch.device("cpu")


def objective(dropout=0.0, vocabulary=320, epsilon=0.1, seed=5):
    spec = {
        "d_model": 12,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "mixer": {"kind": "attention", "heads": 2, "d_k": 3, "d_v": 5},
        "cross": {"heads": 3, "d_k": 4, "d_v": 2},
        "feed_forward": {"kind": "feed_forward", "d_ff": 20},
        "dropout": dropout,
    }
    torch.manual_seed(seed)
    model = Transformer(**spec).build(Vocabulary(source=vocabulary, target=vocabulary))
    return TrainingObjective(model, Smoothing(epsilon=epsilon)).train()


class OneStepPlanner:
    """A planner that repeats one step of these micro-batches."""

    def __init__(self, *micro_batches):
        tokens = sum(int((micro_batch.target_out != 0).sum()) for micro_batch in micro_batches)
        self.planned = PlannedStep(3, list(micro_batches), len(micro_batches), tokens, Position(3, 2))

    def steps(self, start, after, rank, size):
        while True:
            yield self.planned


def micro_batch(pairs):
    """Returns a micro-batch of pairs of sentences."""

    def rectangle(rows):
        longest = max(map(len, rows))
        return np.array([row + [0] * (longest - len(row)) for row in rows])

    return MicroBatch(
        rectangle([[*source, 2] for source, _ in pairs]),
        rectangle([[1, *target] for _, target in pairs]),
        rectangle([[*target, 2] for _, target in pairs]),
    )


PAIRS = [([4, 5, 6], [7, 8]), ([9], [5, 5, 5, 6, 7]), ([8, 3], [3]), ([6, 6, 6, 7, 4, 4], [9, 8, 7]), ([7], [4, 3, 9])]


def one_step(planner, training=None, precision=None, model=None):
    """Returns the record, the gradient and the weights after one step in float64."""
    model = model or objective(vocabulary=10).double()
    optimiser = FlatAdam(model, Adam())
    steps = training_steps(model, optimiser, planner, training or Training(), precision or Precision("float32", CPU))
    record = next(steps)
    return record, optimiser.gradient.clone(), optimiser.vector.clone()


def test_micro_batches_accumulate_to_one_batch():
    """The loss is a mean over all tokens of a step; a mean of the micro-batches' means would differ."""
    whole, gradient, weights = one_step(OneStepPlanner(micro_batch(PAIRS)))
    parts, accumulated, same_weights = one_step(
        OneStepPlanner(micro_batch(PAIRS[:1]), micro_batch(PAIRS[1:4]), micro_batch(PAIRS[4:]))
    )
    assert (parts.loss, parts.unsmoothed) == pytest.approx((whole.loss, whole.unsmoothed), rel=1e-12)
    torch.testing.assert_close(accumulated, gradient, rtol=1e-9, atol=1e-13)
    torch.testing.assert_close(same_weights, weights, rtol=1e-9, atol=1e-9)
    assert whole.tokens == parts.tokens == sum(len(target) + 1 for _, target in PAIRS)


def test_the_record_agrees_with_torch():
    record, _, _ = one_step(OneStepPlanner(micro_batch(PAIRS[:2]), micro_batch(PAIRS[2:])), Training(log_every=1))
    model = objective(vocabulary=10).double()
    smoothed = unsmoothed = 0.0
    for pair in PAIRS:
        source, target_in, target_out = (torch.from_numpy(tokens) for tokens in micro_batch([pair]))
        logits = model.model.readout(model.model(source, source != 0, target_in).states)[0]
        smoothed = smoothed + functional.cross_entropy(logits, target_out[0], reduction="sum", label_smoothing=0.1)
        unsmoothed += functional.cross_entropy(logits, target_out[0], reduction="sum").item()
    (smoothed / record.tokens).backward()
    norm = sum(parameter.grad.square().sum().item() for parameter in model.parameters()) ** 0.5
    assert record.loss == pytest.approx(smoothed.item() / record.tokens, rel=1e-12)
    assert record.unsmoothed == pytest.approx(unsmoothed / record.tokens, rel=1e-12)
    assert record.gradient_norm == pytest.approx(norm, rel=1e-9)
    assert record.rate == pytest.approx(12**-0.5 * 4000**-1.5, rel=1e-12)
    assert (record.step, record.epoch, record.position) == (1, 3, Position(3, 2))


def test_clipping_scales_only_a_gradient_above_the_limit():
    record, free, _ = one_step(OneStepPlanner(micro_batch(PAIRS)))
    clipped, short, _ = one_step(OneStepPlanner(micro_batch(PAIRS)), Training(clip=record.gradient_norm / 3))
    torch.testing.assert_close(short, free / 3, rtol=1e-12, atol=1e-15)
    assert clipped.gradient_norm == record.gradient_norm
    _, same, _ = one_step(OneStepPlanner(micro_batch(PAIRS)), Training(clip=record.gradient_norm * 3))
    assert torch.equal(same, free)


class RunningTraining:
    """A training that can be saved as a checkpoint and loaded from one."""

    def __init__(self, store, micro_batches, clip):
        self.objective = objective(dropout=0.2, vocabulary=265)
        self.optimiser = FlatAdam(self.objective, Adam())
        self.planner = Planner(store, batch_tokens=150, micro_batches=micro_batches, seed=6)
        self.training = Training(seed=9, clip=clip, schedule={"kind": "paper", "warmup": 5})
        self.step, self.position = 0, Position()

    def train(self, count):
        steps = training_steps(
            self.objective,
            self.optimiser,
            self.planner,
            self.training,
            Precision("float32", CPU),
            after=self.step,
            position=self.position,
        )
        for _, record in zip(range(count), steps, strict=False):
            self.step, self.position = record.step, record.position
        return self

    def checkpoint(self):
        weights = {name: weight.detach() for name, weight in self.objective.named_parameters()}
        return Checkpoint(self.step, weights, self.optimiser.state(), {"position": self.position})

    def load(self, checkpoint):
        self.step, self.position = checkpoint.step, Position(*checkpoint.state["position"])
        with torch.no_grad():
            for name, weight in self.objective.named_parameters():
                weight.copy_(checkpoint.weights[name])
        self.optimiser.load_state(checkpoint.optimiser)
        return self


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Forty pairs of 1 to 9 letters each."""
    folder, drawn = tmp_path_factory.mktemp("store"), random.Random(2)
    for side in ("source", "target"):
        lines = ["".join(drawn.choices("αβγ", k=drawn.randint(1, 9))) for _ in range(40)]
        (folder / side).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    data = DataSpec(train=Files(source=str(folder / "source"), target=str(folder / "target")), ratio=None)
    return prepare(data, Bpe(size=265), folder / "store", threads=1).train


@pytest.mark.no_shape_checks
@given(k=st.integers(1, 6), n=st.integers(1, 7), micro_batches=st.integers(1, 3), clip=st.sampled_from([None, 0.5]))
def test_a_resumed_training_is_bit_identical(store, tmp_path_factory, k, n, micro_batches, clip):
    """An epoch has 2 to 5 steps here, so that some of the trainings cross its end."""
    assert 2 <= RunningTraining(store, micro_batches, clip).planner.steps_per_epoch <= 5
    whole = RunningTraining(store, micro_batches, clip).train(max(n, k)).checkpoint()
    checkpoints = Checkpoints(tmp_path_factory.mktemp("checkpoints"), keep=1)
    checkpoints.save(RunningTraining(store, micro_batches, clip).train(k).checkpoint())
    np.random.seed(1)
    torch.manual_seed(1)
    parts = RunningTraining(store, micro_batches, clip).load(checkpoints.load(k)).train(max(n, k) - k).checkpoint()
    assert parts.state == whole.state
    assert all(torch.equal(parts.weights[name], whole.weights[name]) for name in whole.weights)
    assert all(torch.equal(parts.optimiser[name], whole.optimiser[name]) for name in whole.optimiser)


def test_every_micro_batch_has_its_own_randomness():
    """Dropout differs between equal micro-batches of a step, and between steps."""

    def losses(seed):
        model = objective(dropout=0.5, vocabulary=10)
        optimiser = FlatAdam(model, Adam())
        losses_of_calls = []
        model.register_forward_hook(lambda *call: losses_of_calls.append(call[-1].smoothed.item()))
        planner = OneStepPlanner(micro_batch(PAIRS), micro_batch(PAIRS))
        training = Training(seed=seed, schedule={"kind": "inverse_square_root", "peak": 1e-30})
        steps = training_steps(model, optimiser, planner, training, Precision("float32", CPU))
        next(steps)
        next(steps)
        return losses_of_calls

    assert len(set(losses(1))) == 4
    assert losses(1) == losses(1)
    assert not set(losses(1)) & set(losses(2))


def test_a_step_in_bfloat16_learns():
    model = objective(vocabulary=10)
    optimiser = FlatAdam(model, Adam())
    training = Training(schedule={"kind": "inverse_square_root", "warmup": 1, "peak": 0.01})
    steps = training_steps(model, optimiser, OneStepPlanner(micro_batch(PAIRS)), training, Precision("bfloat16", CPU))
    losses = [next(steps).loss for _ in range(8)]
    exact, _, _ = one_step(OneStepPlanner(micro_batch(PAIRS)), model=objective(vocabulary=10))
    assert losses[0] == pytest.approx(exact.loss, rel=0.02)
    assert losses[0] != exact.loss
    assert losses[-1] < 0.9 * losses[0]
    assert optimiser.vector.dtype == torch.float32


def test_float16_skips_a_step_that_overflows():
    model = objective(vocabulary=10)
    optimiser = FlatAdam(model, Adam())
    precision = Precision("float16", CPU)
    precision.scale = 2.0**150
    before = optimiser.vector.clone()
    record = next(training_steps(model, optimiser, OneStepPlanner(micro_batch(PAIRS)), Training(), precision))
    assert not math.isfinite(record.gradient_norm)
    assert math.isfinite(record.loss)
    assert torch.equal(optimiser.vector, before)
    assert precision.scale == 2.0**149


def test_the_scale_of_float16_does_not_change_the_gradient(monkeypatch):
    precision = Precision("float16", CPU)
    monkeypatch.setattr(precision, "cast", Precision("float32", CPU).cast)
    _, free, _ = one_step(OneStepPlanner(micro_batch(PAIRS)))
    _, scaled, _ = one_step(OneStepPlanner(micro_batch(PAIRS)), precision=precision)
    torch.testing.assert_close(scaled, free, rtol=1e-12, atol=1e-15)


def test_a_step_with_a_gradient_of_nan_is_skipped():
    model = objective(vocabulary=10)
    optimiser = FlatAdam(model, Adam())
    with torch.no_grad():
        model.model.decoder[0].feed_forward.inner.bias[2] = math.inf
    before = optimiser.vector.clone()
    steps = training_steps(
        model, optimiser, OneStepPlanner(micro_batch(PAIRS)), Training(), Precision("float32", CPU), after=40
    )
    record = next(steps)
    assert (record.step, record.skipped) == (41, True)
    assert torch.equal(optimiser.vector, before)
    with torch.no_grad():
        model.model.decoder[0].feed_forward.inner.bias[2] = 0.0
    assert not next(steps).skipped
    assert not torch.equal(optimiser.vector, before)


def test_prefetching_keeps_the_order_of_steps_and_raises_their_errors():
    prefetched = _prefetched(itertools.count())
    assert list(itertools.islice(prefetched, 5)) == [0, 1, 2, 3, 4]
    prefetched.close()

    def failing():
        yield 1
        raise ValueError("the store is gone")

    prefetched = _prefetched(failing())
    assert next(prefetched) == 1
    with pytest.raises(ValueError, match="the store is gone"):
        next(prefetched)
