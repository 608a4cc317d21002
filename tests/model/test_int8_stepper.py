"""The fused stepper of int8: each pass is what it says, the whole is near the plain modules, and rows are their own."""

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

passes = pytest.importorskip("transduce.model.int8.kernels")

from transduce.model import Attention, FeedForward, TransformerModel, Vocabulary  # noqa: E402
from transduce.model.int8.quantise import LARGEST, _quantised_copy, largest_weight, quantise  # noqa: E402
from transduce.model.int8.stepper import Int8Stepper, SlotCache  # noqa: E402
from transduce.settings import merged, validated  # noqa: E402

KINDS = ("scaled_dot", "dot")
FUSED = [
    name
    for name, spec in VARIANTS.items()
    if all(isinstance(part, Attention) and part.compatibility.kind in KINDS for part in (spec.mixer, spec.cross))
    and isinstance(spec.feed_forward, FeedForward)
    and spec.feed_forward.activation == "relu"
]


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def max_length(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    return np.empty((rows, width), np.uint8), np.empty(rows, np.float32)


def meant(whole: np.ndarray, steps: np.ndarray) -> Tensor:
    """The states that bytes and steps stand for."""
    return torch.from_numpy((whole.astype(np.float32) - 128) * steps[:, None])


def close_to(whole: np.ndarray, steps: np.ndarray, wanted: Tensor) -> None:
    """As near as bytes can be: half a step, which is a 127th of the farthest number."""
    torch.testing.assert_close(torch.from_numpy(steps), wanted.abs().amax(1) / 127, rtol=1e-5, atol=1e-30)
    assert ((meant(whole, steps) - wanted).abs() <= torch.from_numpy(steps)[:, None] * 0.501).all()


def product_of(rows: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A product, the steps of its rows, a bias, and what they make together."""
    product, steps, bias = numbers(rows, width), numbers(rows, seed=2).abs(), numbers(width, seed=3)
    return product, steps, bias, product * steps[:, None] + bias


@pytest.mark.parametrize(("rows", "width"), [(1, 5), (7, 24), (33, 512)])
def test_states_are_narrowed(rows: int, width: int) -> None:
    states = numbers(rows, width) * 10.0 ** torch.arange(rows).remainder(5).sub(2).unsqueeze(1)
    whole, steps = max_length(rows, width)
    passes.narrowed(states.numpy(), whole, steps)
    close_to(whole, steps, states)
    gain, shift = numbers(width, seed=4), numbers(width, seed=5)
    before = states.clone()
    passes.normalised(states.numpy(), gain.numpy(), shift.numpy(), 1e-5, whole, steps)
    assert torch.equal(states, before)
    close_to(whole, steps, functional.layer_norm(states, (width,), gain, shift, 1e-5))


def test_a_row_of_zeros_is_narrowed_to_zeros() -> None:
    whole, steps = max_length(2, 9)
    passes.narrowed(np.zeros((2, 9), np.float32), whole, steps)
    assert (whole == 128).all()
    assert np.isfinite(steps).all()


@pytest.mark.parametrize(("rows", "width"), [(1, 5), (33, 512)])
def test_products_are_scaled_and_rectified(rows: int, width: int) -> None:
    product, steps, bias, wanted = product_of(rows, width)
    scaled = product.clone()
    passes.scaled(scaled.numpy(), steps.numpy(), bias.numpy())
    torch.testing.assert_close(scaled, wanted)
    whole, found = max_length(rows, width)
    passes.rectified(product.numpy(), steps.numpy(), bias.numpy(), whole, found)
    close_to(whole, found, wanted.relu())


@pytest.mark.parametrize("before", [False, True])
def test_sub_layers_are_added_and_normalised(before: bool) -> None:
    product, steps, bias, sublayer = product_of(9, 40)
    states, gain, shift = numbers(9, 40, seed=6), numbers(40, seed=4), numbers(40, seed=5)
    added = states + sublayer
    normalised = functional.layer_norm(added, (40,), gain, shift, 1e-5)
    whole, found = max_length(9, 40)
    arrays = [part.numpy() for part in (product, steps, bias, states)]
    passes.joined(*arrays, before, gain.numpy(), shift.numpy(), 1e-5, whole, found)
    torch.testing.assert_close(states, added if before else normalised, rtol=1e-5, atol=1e-5)
    close_to(whole, found, normalised)


@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_log_probabilities_are_those_of_a_softmax(spread: float) -> None:
    logits, steps = spread * numbers(5, 1003), numbers(5, seed=2).abs()
    wanted = (logits * steps[:, None]).double().log_softmax(-1)
    passes.log_probabilities(logits.numpy(), steps.numpy())
    torch.testing.assert_close(logits.double(), wanted, rtol=1e-6, atol=2e-5)


@pytest.mark.parametrize(("heads", "d_k", "d_v"), [(2, 64, 64), (3, 5, 6), (1, 64, 16)])
def test_attention_gathers_what_equation_1_says(heads: int, d_k: int, d_v: int) -> None:
    """Three rows of two owners, who know words here and there of 20; features before the keys are of no account."""
    first, queries = 7, 4 * numbers(3, heads * d_k)
    known = numbers(20, first + heads * (d_k + d_v), seed=2)
    slots, counts, owners = np.array([[3, 19, 0, 4], [7, 5, 0, 0]], np.int32), np.array([4, 2]), np.array([1, 0, 1])
    whole, steps = max_length(3, heads * d_v)
    shape = (heads, d_k, d_v, np.float32(d_k**-0.5))
    passes.attended(queries.numpy(), known.numpy(), first, slots, owners, counts, *shape, whole, steps)
    keys, values = known[:, first : first + heads * d_k], known[:, first + heads * d_k :]
    wanted = []
    for query, owner in zip(queries, owners, strict=True):
        own = torch.from_numpy(slots[owner, : counts[owner]]).long()
        q, k, v = query.view(heads, 1, d_k), keys[own].view(-1, heads, d_k), values[own].view(-1, heads, d_v)
        weights = (q @ k.permute(1, 2, 0) / math.sqrt(d_k)).softmax(-1)
        wanted.append((weights @ v.transpose(0, 1)).flatten())
    close_to(whole, steps, torch.stack(wanted))


def test_the_exponential_is_as_exact_as_it_says() -> None:
    for x in -np.concatenate([np.linspace(0, 10, 1001), np.linspace(10, 60, 501)]).astype(np.float32):
        assert passes._exponential(x) == pytest.approx(math.exp(x), rel=7e-7 if x >= -10 else 4e-6)
    assert passes._exponential(np.float32(-1000)) == pytest.approx(math.exp(-60), rel=4e-6)


def model_of(name: str) -> TransformerModel:
    return build(VARIANTS[name]).float().requires_grad_(False)


@pytest.mark.parametrize("name", FUSED)
def test_it_says_nearly_what_the_model_says(name: str) -> None:
    model, (source, visible, target_in) = model_of(name), batch()
    exact = model.readout(model(source, visible, target_in).states)
    fused = quantise(model)
    assert isinstance(fused, Int8Stepper)
    found, state = fused.step(target_in, fused.start(source, visible, 9))
    assert state.length == 9
    assert found.shape == exact.shape
    assert not torch.equal(found, exact)
    # Weights of seven bits, where the processor has no VNNI, are half as exact.
    assert float((found - exact).abs().max()) < 0.2 * LARGEST / largest_weight()
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(4, 9))
    modules = _quantised_copy(model)
    plain = modules.step(target_in, modules.start(source, visible, 9))[0]
    assert float((found - plain).abs().max()) < 0.1


def test_every_variant_that_has_no_pass_goes_on_by_its_modules() -> None:
    for name in VARIANTS:
        assert isinstance(quantise(model_of(name)), Int8Stepper) == (name in FUSED), name
    assert {"text", "norm-pre", "mixer-bias-true"} <= set(FUSED) < set(VARIANTS)


def test_without_numba_a_quantised_copy_searches_and_the_model_does_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # an import of it fails
    model, messages = model_of("text"), []
    copied = quantise(model, messages.append)
    assert isinstance(copied, TransformerModel)
    assert not any(isinstance(module, nn.Linear) for module in copied.modules())
    assert any(isinstance(module, nn.Linear) for module in model.modules())
    assert len(messages) == 1
    assert "install transduce[int8]" in messages[0]


def test_hypotheses_are_their_own_however_they_are_chosen() -> None:
    """Rows that are picked, doubled and dropped over 60 steps, through a cache that is cleared, give the bits of each
    hypothesis written alone."""
    spec = validated(type(TEXT), merged(TEXT.as_dictionary(), {"d_model": 16}), place="a model")
    model = spec.build(Vocabulary(source=17, target=17)).eval().requires_grad_(False)
    fused, (source, visible, _) = quantise(model), batch()
    state, cache = fused.start(source, visible, 60), None
    draws = torch.Generator().manual_seed(5)
    sentences, written = [0, 1, 2, 3], torch.full((4, 1), BEGIN)
    cleared = 0
    for step in range(60):
        found, state = fused.step(written[:, -1:], state)
        cleared += cache is not None and state.cache.used < cache
        cache = state.cache.used
        if step % 13 == 12:
            for row, sentence in enumerate(sentences):
                one = slice(sentence, sentence + 1)
                alone = fused.step(written[row : row + 1], fused.start(source[one], visible[one], 60))[0]
                assert torch.equal(alone[0, -1], found[row, -1])
        chosen = sorted(torch.randint(len(sentences), (min(len(sentences) + 2, 9),), generator=draws).tolist())
        sentences = [sentences[row] for row in chosen]
        tokens = torch.randint(3, 17, (len(chosen), 1), generator=draws)
        written = torch.cat([written[chosen], tokens], 1)
        state = state.pick(torch.tensor(chosen))
    assert cleared > 0


def test_a_full_cache_keeps_what_some_row_knows() -> None:
    cache, slots = SlotCache([3, 2], 4), np.empty((2, 8), np.int32)
    for length in range(2):
        new = cache.extend(slots, length)
        for layer in cache.layers:
            layer[new] = 10 * length + np.arange(2)[:, None]
    slots = slots[[1, 1]]  # the first row is gone: slots 0 and 2 are of none
    new = cache.extend(slots, 2)
    assert cache.used == 4
    assert (new.start, new.stop) == (2, 4)
    for layer in cache.layers:
        assert layer[slots[0, :2], 0].tolist() == [1, 11]
        assert layer[slots[1, :2], 0].tolist() == [1, 11]
    assert slots[:, 2].tolist() == [2, 3]


def test_threads_change_no_bit() -> None:
    model, (source, visible, target_in) = model_of("text"), batch()
    fused, threads = quantise(copy.deepcopy(model)), torch.get_num_threads()
    found = []
    try:
        for many in (1, 2):
            torch.set_num_threads(many)
            found.append(fused.step(target_in, fused.start(source, visible, 9))[0])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_torch_keeps_the_threads_that_it_was_told() -> None:
    """Numba, when it begins, tells OpenMP a number of its own."""
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
