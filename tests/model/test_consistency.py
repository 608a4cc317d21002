"""R-Drop's loss and its gradients against autograd over softmax in float64."""

import multiprocessing
import sys

import pytest
import torch
from torch.nn import functional

from transduce.model.compiled.losses import row_losses
from transduce.model.consistency import ConsistentCrossEntropy, _row_losses
from transduce.model.cross_entropy import Smoothing

PAD = 0
TARGET = torch.tensor([3, 0, 5, 6, 1, 0, 2])


def drawn(dtype=torch.float64):
    torch.manual_seed(2)
    values = [torch.randn(shape, dtype=torch.float64) for shape in ((7, 4), (7, 4), (9, 4))]
    return [value.to(dtype).requires_grad_() for value in values]


def expected(first, second, weight, smoothing, strength):
    """The loss as the paper writes it, and the mean of both unsmoothed losses."""
    present = TARGET != PAD
    share = smoothing.epsilon / (len(weight) if smoothing.over == "all" else len(weight) - 1)
    smoothed_target = torch.full((7, 9), share, dtype=weight.dtype)
    at_target = 1 - smoothing.epsilon + (share if smoothing.over == "all" else 0)
    smoothed_target[torch.arange(7), TARGET] = at_target
    logs = [functional.log_softmax(states @ weight.T, 1) for states in (first, second)]
    likelihood = sum(-(smoothed_target * log).sum(1) for log in logs) / 2
    divergences = [(log.exp() * (log - other)).sum(1) for log, other in (logs, logs[::-1])]
    unsmoothed = sum(functional.nll_loss(log, TARGET, reduction="none") for log in logs) / 2
    total = likelihood + strength / 2 * sum(divergences) / 2
    return total[present].sum(), unsmoothed[present].sum()


@pytest.mark.parametrize("smoothing", [Smoothing(), Smoothing(epsilon=0.1), Smoothing(epsilon=0.3, over="others")])
@pytest.mark.parametrize("strength", [0.5, 5.0])
@pytest.mark.parametrize("rows", [2, 3, 100])
def test_loss_and_gradients_are_those_of_the_paper(smoothing, strength, rows, monkeypatch):
    monkeypatch.setattr(
        "transduce.model.consistency.chunks", lambda states, vocabulary: [slice(i, i + rows) for i in range(0, 7, rows)]
    )
    mine, theirs = drawn(), drawn()
    smoothed, unsmoothed = ConsistentCrossEntropy.apply(
        *mine, TARGET, PAD, smoothing.shares(9), torch.float64, strength
    )
    (2.5 * smoothed).backward()
    total, plain = expected(*theirs, smoothing, strength)
    (2.5 * total).backward()
    assert smoothed.item() == pytest.approx(total.item(), rel=1e-10)
    assert unsmoothed.item() == pytest.approx(plain.item(), rel=1e-10)
    for own, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(own.grad, other.grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_compiled_pass_is_that_of_torch(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    results = []
    for dtype in (torch.float32, torch.float64):  # float64 is not compiled
        tensors = drawn(dtype)
        arguments = TARGET, PAD, Smoothing(epsilon=0.1).shares(9), dtype, 5.0
        smoothed, unsmoothed = ConsistentCrossEntropy.apply(*tensors, *arguments)
        smoothed.backward()
        gradients = [tensor.grad for tensor in tensors]
        results.append([smoothed.detach(), unsmoothed, *gradients])
    for compiled, expected in zip(*results, strict=True):
        torch.testing.assert_close(compiled.double(), expected, rtol=2e-6, atol=2e-6)


def test_the_compiled_pass_computes_bfloat16_in_float32_and_rounds_the_gradient_once():
    torch.manual_seed(3)
    logits = (4 * torch.randn(2, 7, 9)).bfloat16()
    *terms, gradient = row_losses(logits.clone(), TARGET, 0.9, 5.0)
    *expected, exact = _row_losses(logits.double(), TARGET, 0.9, 5.0)
    for values, others in zip(terms, expected, strict=True):
        torch.testing.assert_close(values.double(), others, rtol=1e-5, atol=1e-6)
    assert gradient.dtype == torch.bfloat16
    torch.testing.assert_close(gradient.double(), exact, rtol=2**-8, atol=1e-6)  # half of a unit of the last place


def test_a_forked_process_computes_with_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def compute():
        torch.manual_seed(4)
        results.put([values.tolist() for values in row_losses(torch.randn(2, 7, 9), TARGET, 0.9, 5.0)])

    compute()
    process = context.Process(target=compute, daemon=True)
    process.start()
    process.join(timeout=60)
    assert process.exitcode == 0
    assert results.get() == results.get()


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first pass", "second pass", "weight"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_reach_the_loss_and_the_gradient(place, value):
    tensors = [tensor.detach() for tensor in drawn(torch.float32)]
    tensors[place][3, 2] = value
    tensors = [tensor.requires_grad_() for tensor in tensors]
    arguments = TARGET, PAD, Smoothing(epsilon=0.1).shares(9), torch.float32, 5.0
    smoothed, _ = ConsistentCrossEntropy.apply(*tensors, *arguments)
    smoothed.backward()
    assert not smoothed.isfinite()
    assert not tensors[2].grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_in_16_bits_are_near(dtype):
    mine, theirs = drawn(torch.float32), drawn()
    smoothing = Smoothing(epsilon=0.1)
    smoothed, _ = ConsistentCrossEntropy.apply(*mine, TARGET, PAD, smoothing.shares(9), dtype, 5.0)
    smoothed.backward()
    total, _ = expected(*theirs, smoothing, 5.0)
    total.backward()
    assert smoothed.item() == pytest.approx(total.item(), rel=0.02)
    for own, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(own.grad.double(), other.grad, rtol=0, atol=0.03 * other.grad.abs().max().item())


def test_equal_passes_have_the_loss_of_one():
    first, _, weight = drawn()
    smoothing = Smoothing(epsilon=0.1)
    smoothed, _ = ConsistentCrossEntropy.apply(
        first, first, weight, TARGET, PAD, smoothing.shares(9), torch.float64, 5.0
    )
    assert smoothed.item() == pytest.approx(expected(first, first, weight, smoothing, 0.0)[0].item())


def test_torch_computes_the_loss_where_numba_cannot_be_used(monkeypatch):
    monkeypatch.setattr("transduce.model.consistency.has_numba", lambda: False)
    monkeypatch.setitem(sys.modules, "transduce.model.compiled.losses", None)  # an import would fail
    tensors = drawn(torch.float32)
    smoothed, _ = ConsistentCrossEntropy.apply(*tensors, TARGET, PAD, Smoothing().shares(9), torch.float32, 5.0)
    assert smoothed.item() == pytest.approx(expected(*drawn(), Smoothing(), 5.0)[0].item(), rel=1e-5)
