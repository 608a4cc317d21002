"""The loss of the readout and its gradients, computed in chunks, against torch's cross-entropy and the formula."""

import pytest
import torch
from torch import Tensor, nn

from transduce.model import cross_entropy as cross_entropy_module
from transduce.model.cross_entropy import Loss, Smoothing
from transduce.model.readout import Readout, Separate

BATCH, TARGET, D_MODEL, VOCABULARY, PAD = 5, 9, 6, 11, 3  # a pad that is not 0, and 45 rows: three chunks of 16

SMOOTHINGS = [
    Smoothing(),
    Smoothing(epsilon=0.1),
    Smoothing(epsilon=0.3),
    Smoothing(epsilon=0.1, over="others"),
    Smoothing(epsilon=0.3, over="others"),
]


def states(seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, TARGET, D_MODEL, generator=generator, dtype=torch.float64).requires_grad_()


def targets(seed: int = 2) -> Tensor:
    """Returns tokens with padding within and after them."""
    target = torch.randint(0, VOCABULARY, (BATCH, TARGET), generator=torch.Generator().manual_seed(seed))
    target[1, 4:] = target[3, 2:] = PAD
    return target


def built(seed: int = 3, scale: float = 1.0) -> Readout:
    weight = torch.randn(VOCABULARY, D_MODEL, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Readout(nn.Parameter(scale * weight), PAD)


def reference_loss(log_probabilities: Tensor, target: Tensor, smoothing: Smoothing) -> Tensor:
    """Returns −Σ q log p over the tokens, with an explicit q for each."""
    total = torch.zeros((), dtype=torch.float64)
    for row, token in zip(log_probabilities.flatten(0, 1), target.flatten().tolist()):
        if token == PAD:
            continue
        if smoothing.over == "all":
            q = torch.full((VOCABULARY,), smoothing.epsilon / VOCABULARY, dtype=torch.float64)
            q[token] += 1 - smoothing.epsilon
        else:
            q = torch.full((VOCABULARY,), smoothing.epsilon / (VOCABULARY - 1), dtype=torch.float64)
            q[token] = 1 - smoothing.epsilon
        total = total - (q * row).sum()
    return total


def gradients(loss: Tensor, readout: Readout, inner: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(0.7 * loss, [inner, readout.weight])


def close(actual: Tensor | tuple[Tensor, ...], expected: Tensor | tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("chunk", [1, 2**22])
def test_the_loss_and_its_gradients_are_torchs(epsilon: float, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy_module, "CHUNK", chunk)
    readout, inner, target = built(), states(), targets()
    loss = readout.loss(inner, target, Smoothing(epsilon=epsilon))
    logits = (inner @ readout.weight.T).flatten(0, 1)
    expected, unsmoothed = (
        nn.functional.cross_entropy(
            logits, target.flatten(), reduction="sum", ignore_index=PAD, label_smoothing=smoothing
        )
        for smoothing in (epsilon, 0.0)
    )
    close(tuple(loss), (expected, unsmoothed))
    close(gradients(loss.smoothed, readout, inner), gradients(expected, readout, inner))


@pytest.mark.parametrize("smoothing", SMOOTHINGS, ids=str)
@pytest.mark.parametrize("chunk", [1, 2**22])
def test_the_loss_and_its_gradients_are_the_formulas(
    smoothing: Smoothing, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy_module, "CHUNK", chunk)
    readout, inner, target = built(), states(), targets()
    loss = readout.loss(inner, target, smoothing)
    expected = reference_loss(torch.log_softmax(inner @ readout.weight.T, -1), target, smoothing)
    close(loss.smoothed, expected)
    close(gradients(loss.smoothed, readout, inner), gradients(expected, readout, inner))


@pytest.mark.parametrize("smoothing", [SMOOTHINGS[1], SMOOTHINGS[4]], ids=str)
def test_gradients_are_those_of_finite_differences(smoothing: Smoothing) -> None:
    inner, target = states().detach()[1:3, 2:6].requires_grad_(), targets()[1:3, 2:6]
    weight = built().weight.detach().requires_grad_()

    def loss(inner: Tensor, matrix: Tensor) -> Tensor:
        readout = built()
        del readout.weight
        readout.weight = matrix
        return readout.loss(inner, target, smoothing).smoothed

    assert torch.autograd.gradcheck(loss, (inner, weight))


@pytest.mark.parametrize("smoothing", [SMOOTHINGS[0], SMOOTHINGS[2], SMOOTHINGS[4]], ids=str)
@pytest.mark.parametrize("chunk", [1, 2**22])
def test_a_bias_is_in_the_loss_and_has_a_gradient(
    smoothing: Smoothing, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy_module, "CHUNK", chunk)
    plain, inner, target = built(), states(), targets()
    readout = Separate(bias=True).build(plain.weight, PAD)
    readout.weight = plain.weight
    assert isinstance(readout.bias, nn.Parameter)
    assert not readout.bias.any()
    with torch.no_grad():
        readout.bias.copy_(torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(4)))
        readout.bias[1] = -100.0
    log_probabilities = torch.log_softmax(inner @ readout.weight.T + readout.bias, -1)
    close(readout(inner), log_probabilities)
    loss, expected = readout.loss(inner, target, smoothing), reference_loss(log_probabilities, target, smoothing)
    close(loss.smoothed, expected)
    inputs = [inner, readout.weight, readout.bias]
    close(torch.autograd.grad(0.7 * loss.smoothed, inputs), torch.autograd.grad(0.7 * expected, inputs))
    evaluation = readout.evaluate(inner, target, smoothing)
    close(tuple(evaluation)[:2], tuple(loss))
    hits = (log_probabilities.argmax(-1) == target) & (target != PAD)
    assert 0 < int(evaluation.correct) == int(hits.sum())


def test_padding_has_no_loss_and_no_gradient() -> None:
    readout, inner, target = built(), states(), targets()
    smoothing = Smoothing(epsilon=0.1)
    loss = readout.loss(inner, target, smoothing)
    padded = (target == PAD).unsqueeze(2)
    assert padded.sum() > 10
    gradient, _ = gradients(loss.smoothed, readout, inner)
    assert not gradient.masked_select(padded).any()
    close(tuple(readout.loss(inner.masked_fill(padded, 7.0), target, smoothing)), tuple(loss))
    padding = readout.loss(inner, torch.full_like(target, PAD), smoothing)
    assert (padding.smoothed, padding.unsmoothed) == (0, 0)


def test_the_unsmoothed_sum_carries_no_gradient_and_is_the_smoothed_one_without_smoothing() -> None:
    readout, inner, target = built(), states(), targets()
    smoothed = readout.loss(inner, target, Smoothing(epsilon=0.3))
    plain = readout.loss(inner, target, Smoothing())
    assert not smoothed.unsmoothed.requires_grad
    close(smoothed.unsmoothed, plain.smoothed)
    assert smoothed.smoothed > smoothed.unsmoothed


def test_the_loss_is_the_same_without_gradients() -> None:
    readout, inner, target = built(), states(), targets()
    expected = readout.loss(inner, target, Smoothing(epsilon=0.1))
    with torch.inference_mode():
        close(tuple(readout.loss(inner, target, Smoothing(epsilon=0.1))), tuple(expected))
    frozen = readout.requires_grad_(False).loss(inner.detach(), target, Smoothing(epsilon=0.1))
    close(tuple(frozen), tuple(expected))


def test_large_logits_do_not_overflow() -> None:
    readout, inner, target = built(scale=1000.0), states(), targets()
    loss = readout.loss(inner, target, Smoothing(epsilon=0.1))
    expected = reference_loss(torch.log_softmax(inner @ readout.weight.T, -1), target, Smoothing(epsilon=0.1))
    close(loss.smoothed, expected)
    assert all(gradient.isfinite().all() for gradient in gradients(loss.smoothed, readout, inner))


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.02)])
def test_the_loss_of_a_token_of_probability_zero_comes_from_its_logit(precision: str, tolerance: float) -> None:
    readout, inner, target = built(scale=100.0).float(), states().detach().float(), targets()
    logits = (inner @ readout.weight.T).flatten(0, 1)
    expected = nn.functional.cross_entropy(logits, target.flatten(), reduction="sum", ignore_index=PAD)
    with torch.autocast("cpu", dtype=getattr(torch, precision), enabled=precision != "float32"):
        loss = readout.loss(inner, target, Smoothing())
    probabilities = logits.softmax(1).gather(1, target.flatten().unsqueeze(1))[target.flatten() != PAD]
    assert (probabilities == 0).any()
    torch.testing.assert_close(tuple(loss), (expected, expected), rtol=tolerance, atol=0)


def test_bfloat16_products_are_summed_in_float32() -> None:
    readout, inner, target = built().float(), states().detach().float().requires_grad_(), targets()
    expected = readout.loss(inner, target, Smoothing(epsilon=0.1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss: Loss = readout.loss(inner, target, Smoothing(epsilon=0.1))
    assert loss.smoothed.dtype == torch.float32
    torch.testing.assert_close(tuple(loss), tuple(expected), rtol=0.01, atol=0)
    actual, wanted = gradients(loss.smoothed, readout, inner), gradients(expected.smoothed, readout, inner)
    assert [gradient.dtype for gradient in actual] == [torch.float32] * 2
    torch.testing.assert_close(actual, wanted, rtol=0.05, atol=0.05)


def test_log_probabilities_are_normalised_in_float32_at_least() -> None:
    readout, inner = built(), states()
    close(readout(inner), torch.log_softmax(inner @ readout.weight.T, -1))
    log_probabilities = readout.bfloat16()(inner.bfloat16())
    assert log_probabilities.dtype == torch.float32
    torch.testing.assert_close(log_probabilities.exp().sum(-1), torch.ones(BATCH, TARGET), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("precision", "multiple"), [("float32", 1), ("bfloat16", 64)])
def test_products_in_16_bits_have_few_numbers_of_rows(
    precision: str, multiple: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oneDNN keeps a compiled product for each number of rows: with every number, memory grew by megabytes a step."""
    rows: list[int] = []

    def linear(inner: Tensor, weight: Tensor) -> Tensor:
        rows.append(len(inner))
        return inner @ weight.T

    monkeypatch.setattr(cross_entropy_module.functional, "linear", linear)
    monkeypatch.setattr(cross_entropy_module, "CHUNK", 150 * VOCABULARY)
    readout, counts = built().float(), []
    for padding in range(7):
        inner, target = torch.randn(31, 7, D_MODEL), torch.full((31, 7), 5)
        target[:29, 7 - padding :] = PAD
        counts.append(int((target != PAD).sum()))
        with torch.autocast("cpu", dtype=getattr(torch, precision), enabled=multiple > 1):
            readout.loss(inner, target, Smoothing(epsilon=0.1))
    if multiple == 1:
        assert sum(rows) == sum(counts)
    else:
        assert len(set(counts)) == 7
        assert {count % multiple for count in rows} == {0, 31 * 7 % multiple}, (
            "all rows, where padding does not suffice"
        )
        assert max(rows) == 128, "a chunk has 150 rows at most"


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_loss_and_its_gradients_do_not_depend_on_padding(precision: str) -> None:
    readout, inner = built().float(), torch.randn(1, 200, D_MODEL, requires_grad=True)
    target = torch.randint(0, VOCABULARY, (1, 200), generator=torch.Generator().manual_seed(5))
    count = int((target != PAD).sum())
    assert count % 64
    results = []
    for places in (slice(None), (target[0] != PAD).nonzero().squeeze(1)):
        with torch.autocast("cpu", dtype=getattr(torch, precision), enabled=precision != "float32"):
            loss = readout.loss(inner[:, places], target[:, places], Smoothing(epsilon=0.1))
        results.append([*loss, *gradients(loss.smoothed, readout, inner)])
    padded, without = results
    exact = precision == "float32"
    torch.testing.assert_close(padded, without, rtol=0 if exact else 1e-6, atol=0 if exact else 1e-6)
    assert not padded[2][target == PAD].any()
