"""The int8 stepper: each kernel against torch, the stepper against the float32 model, and rows independent."""

import copy
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from variants import BEGIN, TEXT, VARIANTS, batch, build

kernels = pytest.importorskip("transduce.model.int8.kernels")

from transduce.model import Attention, FeedForward, TransformerModel, Vocabulary  # noqa: E402
from transduce.model.int8.quantise import LARGEST, _quantised_copy, largest_weight, quantise  # noqa: E402
from transduce.model.int8.stepper import Int8Stepper, SlotCache  # noqa: E402
from transduce.settings import merged, validated  # noqa: E402

KINDS = ("scaled_dot", "dot")
COVERED = [
    name
    for name, spec in VARIANTS.items()
    if all(isinstance(part, Attention) and part.compatibility.kind in KINDS for part in (spec.mixer, spec.cross))
    and isinstance(spec.feed_forward, FeedForward)
    and spec.feed_forward.activation == "relu"
    and not spec.next_word
]


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def allocate(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns arrays for the bytes and the row scales of quantised rows."""
    return np.empty((rows, width), np.uint8), np.empty(rows, np.float32)


def dequantise(quantised: np.ndarray, scales: np.ndarray) -> Tensor:
    return torch.from_numpy((quantised.astype(np.float32) - 128) * scales[:, None])


def assert_quantised(quantised: np.ndarray, scales: np.ndarray, expected: Tensor) -> None:
    """Asserts an error of at most half a scale; a row's scale is a 127th of its largest magnitude."""
    torch.testing.assert_close(torch.from_numpy(scales), expected.abs().amax(1) / 127, rtol=1e-5, atol=1e-30)
    assert ((dequantise(quantised, scales) - expected).abs() <= torch.from_numpy(scales)[:, None] * 0.501).all()


def unscaled_product(rows: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns a product, the scales of its rows, a bias, and the scaled product with the bias."""
    product, scales, bias = numbers(rows, width), numbers(rows, seed=2).abs(), numbers(width, seed=3)
    return product, scales, bias, product * scales[:, None] + bias


@pytest.mark.parametrize(("rows", "width"), [(1, 5), (7, 24), (33, 512)])
def test_states_are_quantised(rows: int, width: int) -> None:
    states = numbers(rows, width) * 10.0 ** torch.arange(rows).remainder(5).sub(2).unsqueeze(1)
    quantised, scales = allocate(rows, width)
    kernels.quantise_rows(states.numpy(), quantised, scales)
    assert_quantised(quantised, scales, states)
    gain, shift = numbers(width, seed=4), numbers(width, seed=5)
    unchanged = states.clone()
    kernels.normalise_rows(states.numpy(), gain.numpy(), shift.numpy(), 1e-5, quantised, scales)
    assert torch.equal(states, unchanged)
    assert_quantised(quantised, scales, functional.layer_norm(states, (width,), gain, shift, 1e-5))


def test_a_row_of_zeros_is_quantised_to_zeros() -> None:
    quantised, scales = allocate(2, 9)
    kernels.quantise_rows(np.zeros((2, 9), np.float32), quantised, scales)
    assert (quantised == 128).all()
    assert np.isfinite(scales).all()


@pytest.mark.parametrize(("rows", "width"), [(1, 5), (33, 512)])
def test_products_are_scaled_and_rectified(rows: int, width: int) -> None:
    product, scales, bias, expected = unscaled_product(rows, width)
    scaled = product.clone()
    kernels.scale_rows(scaled.numpy(), scales.numpy(), bias.numpy())
    torch.testing.assert_close(scaled, expected)
    quantised, next_scales = allocate(rows, width)
    kernels.rectify_rows(product.numpy(), scales.numpy(), bias.numpy(), quantised, next_scales)
    assert_quantised(quantised, next_scales, expected.relu())


@pytest.mark.parametrize("pre_norm", [False, True])
def test_sub_layers_are_added_and_normalised(pre_norm: bool) -> None:
    product, scales, bias, sublayer = unscaled_product(9, 40)
    states, gain, shift = numbers(9, 40, seed=6), numbers(40, seed=4), numbers(40, seed=5)
    added = states + sublayer
    normalised = functional.layer_norm(added, (40,), gain, shift, 1e-5)
    quantised, next_scales = allocate(9, 40)
    arrays = [part.numpy() for part in (product, scales, bias, states)]
    kernels.add_and_normalise(*arrays, pre_norm, gain.numpy(), shift.numpy(), 1e-5, quantised, next_scales)
    torch.testing.assert_close(states, added if pre_norm else normalised, rtol=1e-5, atol=1e-5)
    assert_quantised(quantised, next_scales, normalised)


@pytest.mark.parametrize("deviation", [1.0, 300.0])
def test_log_probabilities_are_those_of_a_softmax(deviation: float) -> None:
    logits, scales = deviation * numbers(5, 1003), numbers(5, seed=2).abs()
    expected = (logits * scales[:, None]).double().log_softmax(-1)
    kernels.log_softmax_rows(logits.numpy(), scales.numpy())
    torch.testing.assert_close(logits.double(), expected, rtol=1e-6, atol=2e-5)


@pytest.mark.parametrize(("heads", "d_k", "d_v"), [(2, 64, 64), (3, 5, 6), (1, 64, 16)])
def test_attention_is_equation_1(heads: int, d_k: int, d_v: int) -> None:
    """Three queries of two groups attend to some of 20 slots; the features before the keys are ignored."""
    first, queries = 7, 4 * numbers(3, heads * d_k)
    key_values = numbers(20, first + heads * (d_k + d_v), seed=2)
    slots, counts, groups = np.array([[3, 19, 0, 4], [7, 5, 0, 0]], np.int32), np.array([4, 2]), np.array([1, 0, 1])
    quantised, scales = allocate(3, heads * d_v)
    shape = (heads, d_k, d_v, np.float32(d_k**-0.5))
    kernels.attend(queries.numpy(), key_values.numpy(), first, slots, groups, counts, *shape, quantised, scales)
    keys, values = key_values[:, first : first + heads * d_k], key_values[:, first + heads * d_k :]
    expected = []
    for query, group in zip(queries, groups, strict=True):
        visible = torch.from_numpy(slots[group, : counts[group]]).long()
        q, k, v = query.view(heads, 1, d_k), keys[visible].view(-1, heads, d_k), values[visible].view(-1, heads, d_v)
        weights = (q @ k.permute(1, 2, 0) / math.sqrt(d_k)).softmax(-1)
        expected.append((weights @ v.transpose(0, 1)).flatten())
    assert_quantised(quantised, scales, torch.stack(expected))


def test_the_exponential_has_the_documented_error() -> None:
    for x in -np.concatenate([np.linspace(0, 10, 1001), np.linspace(10, 60, 501)]).astype(np.float32):
        assert kernels._exponential(x) == pytest.approx(math.exp(x), rel=7e-7 if x >= -10 else 4e-6)
    assert kernels._exponential(np.float32(-1000)) == pytest.approx(math.exp(-60), rel=4e-6)


def float32_model(name: str) -> TransformerModel:
    return build(VARIANTS[name]).float().requires_grad_(False)


@pytest.mark.parametrize("name", COVERED)
def test_the_stepper_is_near_the_model_and_its_quantised_copy(name: str) -> None:
    model, (source, visible, target_in) = float32_model(name), batch()
    exact = model.readout(model(source, visible, target_in).states)
    stepper = quantise(model)
    assert isinstance(stepper, Int8Stepper)
    log_probabilities, state = stepper.step(target_in, stepper.start(source, visible, 9))
    assert state.length == 9
    assert log_probabilities.shape == exact.shape
    assert not torch.equal(log_probabilities, exact)
    # Weights of seven bits, where the processor has no VNNI, are half as exact.
    assert float((log_probabilities - exact).abs().max()) < 0.2 * LARGEST / largest_weight()
    torch.testing.assert_close(log_probabilities.exp().sum(-1), torch.ones(4, 9))
    copied = _quantised_copy(model)
    of_copy = copied.step(target_in, copied.start(source, visible, 9))[0]
    assert float((log_probabilities - of_copy).abs().max()) < 0.1


def test_variants_without_kernels_get_a_quantised_copy() -> None:
    for name in VARIANTS:
        assert isinstance(quantise(float32_model(name)), Int8Stepper) == (name in COVERED), name
    assert {"text", "norm-pre", "mixer-bias-true"} <= set(COVERED) < set(VARIANTS)


def test_without_numba_a_quantised_copy_searches_and_the_model_does_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # `import numba` fails
    model, messages = float32_model("text"), []
    copied = quantise(model, messages.append)
    assert isinstance(copied, TransformerModel)
    assert not any(isinstance(module, nn.Linear) for module in copied.modules())
    assert any(isinstance(module, nn.Linear) for module in model.modules())
    assert len(messages) == 1
    assert "install transduce[int8]" in messages[0]


def test_picking_rows_leaves_each_hypothesis_bit_identical() -> None:
    """Rows are picked, doubled and dropped over 60 steps, in which the cache drops slots; the result of each hypothesis
    is bit-identical to that of the hypothesis alone."""
    spec = validated(type(TEXT), merged(TEXT.as_dictionary(), {"d_model": 16}), place="a model")
    model = spec.build(Vocabulary(source=17, target=17)).eval().requires_grad_(False)
    stepper, (source, visible, _) = quantise(model), batch()
    state, used = stepper.start(source, visible, 60), None
    draws = torch.Generator().manual_seed(5)
    sentences, written = [0, 1, 2, 3], torch.full((4, 1), BEGIN)
    drops = 0
    for step in range(60):
        log_probabilities, state = stepper.step(written[:, -1:], state)
        drops += used is not None and state.cache.used < used
        used = state.cache.used
        if step % 13 == 12:
            for row, sentence in enumerate(sentences):
                this = slice(sentence, sentence + 1)
                alone = stepper.step(written[row : row + 1], stepper.start(source[this], visible[this], 60))[0]
                assert torch.equal(alone[0, -1], log_probabilities[row, -1])
        chosen = sorted(torch.randint(len(sentences), (min(len(sentences) + 2, 9),), generator=draws).tolist())
        sentences = [sentences[row] for row in chosen]
        tokens = torch.randint(3, 17, (len(chosen), 1), generator=draws)
        written = torch.cat([written[chosen], tokens], 1)
        state = state.pick(torch.tensor(chosen))
    assert drops > 0


def test_a_full_cache_keeps_the_slots_in_use() -> None:
    cache, slots = SlotCache([3, 2], 4), np.empty((2, 8), np.int32)
    for length in range(2):
        new = cache.extend(slots, length)
        for layer in cache.layers:
            layer[new] = 10 * length + np.arange(2)[:, None]
    slots = slots[[1, 1]]  # without the first row no row uses slots 0 and 2
    new = cache.extend(slots, 2)
    assert cache.used == 4
    assert (new.start, new.stop) == (2, 4)
    for layer in cache.layers:
        assert layer[slots[0, :2], 0].tolist() == [1, 11]
        assert layer[slots[1, :2], 0].tolist() == [1, 11]
    assert slots[:, 2].tolist() == [2, 3]


def test_results_are_bit_identical_for_any_number_of_threads() -> None:
    model, (source, visible, target_in) = float32_model("text"), batch()
    stepper, threads = quantise(copy.deepcopy(model)), torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(stepper.step(target_in, stepper.start(source, visible, 9))[0])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*results)


def test_importing_the_kernels_leaves_torchs_number_of_threads() -> None:
    """Numba sets OpenMP's number of threads when it starts."""
    code = """
import torch
torch.set_num_threads(1)
before = torch.get_num_threads()
import transduce.model.int8.kernels
print(before, torch.get_num_threads())
"""
    variables = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"
