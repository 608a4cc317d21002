"""Compiled code: products, norms and the choice of tokens against torch, the stepper against the model, rows alone."""

import math
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from variants import BEGIN, TEXT, VARIANTS, batch, build

rows = pytest.importorskip("transduce.model.compiled.rows")

from transduce.model.compiled.compilation import _forget_other_sources, compiled  # noqa: E402
from transduce.model.compiled.instructions import INSTRUCTIONS, instructions_of  # noqa: E402
from transduce.model.compiled.layers import ROWS_AT_ONCE  # noqa: E402
from transduce.model.compiled.products import multiply, pack  # noqa: E402
from transduce.model.compiled.stepper import CompiledStepper, SlotCache  # noqa: E402
from transduce.model.int8 import LARGEST, largest_weight, quantise  # noqa: E402
from transduce.model.transformer import TransformerModel  # noqa: E402
from transduce.model.translation_model import Vocabulary  # noqa: E402
from transduce.runtime.device import has_numba  # noqa: E402
from transduce.search.cpu_stepper import cpu_stepper, is_covered  # noqa: E402
from transduce.settings import merged, validated  # noqa: E402

HAS_VNNI = INSTRUCTIONS.multiply_add_bytes is not None
PRECISIONS = [pytest.param(False, id="float32"), pytest.param(True, id="int8")]


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@compiled
def run_product(x, product, layer, out):
    multiply(x, x.shape[0], product, layer, out)


def product_of(states: Tensor, matrices: list[tuple[Tensor, Tensor | None]], layer: int, int8: bool) -> Tensor:
    """Returns the product with the matrix of a layer."""
    product = pack(matrices, int8=int8)
    out = np.empty((len(states), product.width), np.float32)
    run_product(states.numpy(), product, layer, out)
    assert (out[:, len(matrices[0][0]) :] == 0).all()
    return torch.from_numpy(out[:, : len(matrices[0][0])])


def reference_product(states: Tensor, weight: Tensor, bias: Tensor | None, int8: bool) -> Tensor:
    """Returns the product in float64, in int8 from the definition: rows of integers, each with a scale."""
    if not int8:
        return functional.linear(states.double(), weight.double(), None if bias is None else bias.double())

    def quantised(matrix: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
        scale = largest.unsqueeze(1) / 127
        return (matrix * (1 / scale)).round().double(), scale.double()

    largest = weight.abs().amax(1)
    if not HAS_VNNI:
        pairs = functional.pad(weight, (0, weight.shape[1] % 2)).unflatten(1, (-1, 2)).sum(2)
        largest = torch.maximum(largest, pairs.abs().amax(1))
    (x, x_scales), (w, w_scales) = quantised(states, states.abs().amax(1)), quantised(weight, largest)
    product = (x @ w.T) * x_scales * w_scales.T
    return product if bias is None else product + bias


@pytest.mark.parametrize("int8", PRECISIONS)
@pytest.mark.parametrize(("height", "inputs", "outputs"), [(1, 16, 8), (7, 22, 40), (33, 512, 101)])
def test_a_product_is_that_of_its_layer(height: int, inputs: int, outputs: int, int8: bool) -> None:
    # Rows of very different sizes: a single scale for the matrix would round small rows to 0.
    states = numbers(height, inputs) * 10.0 ** torch.arange(height).remainder(5).sub(2).unsqueeze(1)
    weight = numbers(outputs, inputs, seed=2) * 10.0 ** torch.arange(outputs).remainder(3).sub(1).unsqueeze(1)
    matrices = [(weight, numbers(outputs, seed=3)), (weight.flip(0), None)]
    for layer, (matrix, bias) in enumerate(matrices):
        result, expected = product_of(states, matrices, layer, int8), reference_product(states, matrix, bias, int8)
        error = (result - expected).norm() / expected.norm()
        assert float(error) < 1e-6


@pytest.mark.parametrize("int8", PRECISIONS)
def test_a_row_of_a_product_does_not_depend_on_its_companions(int8: bool) -> None:
    matrices, states = [(numbers(40, 64, seed=2), numbers(40, seed=4))], numbers(13, 64)
    group = product_of(states, matrices, 0, int8)
    for count in (1, 2, 3, 5, 8):
        assert torch.equal(product_of(states[:count], matrices, 0, int8), group[:count])


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_integers_do_not_overflow(sign: int) -> None:
    """Without VNNI processors add the products of two bytes in 16 bits."""
    states, weight = torch.ones(3, 70), torch.full((40, 70), float(sign))
    product = product_of(states, [(weight, None)], 0, int8=True)
    torch.testing.assert_close(product, torch.full((3, 40), 70.0 * sign), rtol=0.01, atol=0)
    torch.testing.assert_close(product, reference_product(states, weight, None, int8=True).float())


@pytest.mark.parametrize("int8", PRECISIONS)
def test_a_row_of_zeros_gives_the_bias(int8: bool) -> None:
    bias = numbers(8)
    assert torch.equal(product_of(torch.zeros(2, 16), [(numbers(8, 16), bias)], 0, int8), bias.expand(2, -1))
    assert torch.equal(product_of(numbers(2, 16), [(torch.zeros(8, 16), bias)], 0, int8), bias.expand(2, -1))


IS_X86 = platform.machine() in ("x86_64", "AMD64")


@pytest.mark.slow
@pytest.mark.skipif(not IS_X86, reason="the instructions are those of x86 processors")
@pytest.mark.parametrize(
    ("processor", "features", "lanes"),
    [
        pytest.param("x86-64-v3", "+avx2,+fma", 8, id="avx2"),
        pytest.param("x86-64-v2", "+sse4.2", 4, id="sse", marks=pytest.mark.slow),
    ],
)
def test_products_with_the_instructions_of_older_processors(processor: str, features: str, lanes: int) -> None:
    code = """
import sys
sys.path.insert(0, "tests/model")
from test_compiled_stepper import *
from transduce.model.compiled.instructions import LANES
from transduce.model.compiled.products import has_int8
states, weight, bias = numbers(11, 70), numbers(37, 70, seed=2), numbers(37, seed=3)
errors = [
    float((product_of(states, [(weight, bias)], 0, int8) - reference_product(states, weight, bias, int8)).abs().max())
    for int8 in (False, True)[: 1 + has_int8()]
]
print(LANES, len(errors), max(errors) < 2e-5)
"""
    variables = {**os.environ, "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == f"{lanes} {2 if lanes > 4 else 1} True\n"


def test_instructions_follow_from_the_features() -> None:
    assert instructions_of("+avx2,+avx512f,+avx512bw,+avx512vnni").multiply_add_bytes == "llvm.x86.avx512.vpdpbusd.512"
    assert instructions_of("+avx2,+avx512f,+avx512bw,-avx512vnni").multiply_add_bytes is None
    assert instructions_of("+avx2,+avxvnni,-avx512f").multiply_add_bytes == "llvm.x86.avx512.vpdpbusd.256"
    assert instructions_of("+neon")[2:] == (None, None)


def test_a_norm_is_torchs() -> None:
    states, gain, shift = numbers(3, 40) * 10 + 5, numbers(40, seed=4), numbers(40, seed=5)
    expected = functional.layer_norm(states, (40,), gain, shift, 1e-5)
    for row, normalised in zip(states.numpy(), expected, strict=True):
        rows.normalise(row, gain.numpy(), shift.numpy(), np.float32(1e-5), row)
        torch.testing.assert_close(torch.from_numpy(row), normalised, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("deviation", [1.0, 300.0])
def test_log_probabilities_are_those_of_a_softmax(deviation: float) -> None:
    logits = deviation * numbers(1003)
    out = np.empty(1003, np.float32)
    rows.log_softmax(logits.numpy(), out)
    torch.testing.assert_close(torch.from_numpy(out).double(), logits.double().log_softmax(-1), rtol=1e-6, atol=3e-5)


@pytest.mark.parametrize(("tokens", "count"), [(5, 3), (40, 8), (1003, 12), (1003, 1)])
def test_the_best_tokens_are_those_of_all_but_the_banned(tokens: int, count: int) -> None:
    for seed in range(20):
        logits = numbers(tokens, seed=seed)
        banned = logits.topk(2).indices[1:] if tokens > 5 else torch.tensor([0])
        expected = logits.log_softmax(-1)
        expected[banned] = -math.inf
        best, chosen = np.empty(count, np.float32), np.empty(count, np.int64)
        rows.best_of_row(logits.numpy(), banned.numpy(), np.empty(-(-tokens // 32), np.float32), best, chosen)
        values, places = expected.topk(count)
        assert chosen.tolist() == places.tolist()
        torch.testing.assert_close(torch.from_numpy(best), values, rtol=1e-5, atol=2e-6)


def test_equal_logits_are_all_found() -> None:
    best, chosen = np.empty(40, np.float32), np.empty(40, np.int64)
    rows.best_of_row(np.zeros(40, np.float32), np.array([], np.int64), np.empty(2, np.float32), best, chosen)
    assert sorted(chosen.tolist()) == list(range(40))


def test_the_exponential_has_the_documented_error() -> None:
    for x in -np.concatenate([np.linspace(0, 10, 101), np.linspace(10, 60, 51)]).astype(np.float32):
        assert rows.exponential(x) == pytest.approx(math.exp(x), rel=7e-7 if x >= -10 else 4e-6)
    assert rows.exponential(np.float32(-1000)) == pytest.approx(math.exp(-60), rel=4e-6)


def float32_model(name: str) -> TransformerModel:
    return build(VARIANTS[name]).float().requires_grad_(False)


COVERED = [name for name in VARIANTS if is_covered(float32_model(name))]


def test_variants_without_compiled_code_are_searched_by_torch() -> None:
    for name in VARIANTS:
        model = float32_model(name)
        assert isinstance(cpu_stepper(model, int8=False), CompiledStepper) == (name in COVERED), name
        assert name in COVERED or cpu_stepper(model, int8=False) is model
    assert {"text", "norm-pre", "mixer-bias-true"} <= set(COVERED) < set(VARIANTS)
    assert cpu_stepper(float32_model("text").bfloat16(), int8=False).__class__ is TransformerModel


@pytest.mark.parametrize("int8", PRECISIONS)
@pytest.mark.parametrize("name", COVERED)
def test_the_stepper_is_near_the_model(name: str, int8: bool) -> None:
    model, (source, visible, target_in) = float32_model(name), batch()
    exact = model.readout(model(source, visible, target_in).states)
    stepper = cpu_stepper(model, int8=int8)
    log_probabilities, state = stepper.step(target_in, stepper.start(source, visible, 9))
    assert state.length == 9
    assert log_probabilities.shape == exact.shape
    of_int8 = 0.2 if HAS_VNNI else 0.25  # without it weights have a little less than eight bits
    assert float((log_probabilities - exact).abs().max()) < (of_int8 if int8 else 1e-5)
    torch.testing.assert_close(log_probabilities.exp().sum(-1), torch.ones(4, 9))
    if int8:
        copied = quantise(model)
        of_copy = copied.step(target_in, copied.start(source, visible, 9))[0]
        # Without VNNI the weights of torch's copy have seven bits.
        assert float((log_probabilities - of_copy).abs().max()) < (0.2 if largest_weight() == LARGEST else 0.4)


def test_more_rows_than_are_computed_at_once() -> None:
    """The encoder and the decoder compute some rows at a time; sentences are as they are alone."""
    model = float32_model("text")
    stepper, lengths = cpu_stepper(model, int8=False), [1, 50, 70, 20, 3, ROWS_AT_ONCE] * 20
    source = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        source[row, :length] = torch.randint(3, 17, (length,), generator=torch.Generator().manual_seed(row))
    begin = torch.full((len(lengths), 1), BEGIN)
    together = stepper.step(begin, stepper.start(source, source != 0, 3))[0]
    for row, length in list(enumerate(lengths))[::7]:
        alone = source[row : row + 1, :length]
        result = stepper.step(begin[:1], stepper.start(alone, alone != 0, 3))[0]
        assert torch.equal(result[0], together[row])


@pytest.mark.parametrize("int8", PRECISIONS)
def test_without_numba_torch_searches_and_the_model_does_not_change(
    int8: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # `import numba` fails
    monkeypatch.setattr("transduce.search.cpu_stepper.has_numba", has_numba.__wrapped__)  # which is not cached
    model = float32_model("text")
    stepper = cpu_stepper(model, int8=int8)
    assert isinstance(stepper, TransformerModel)
    assert (stepper is model) != int8
    assert len(caplog.messages) == int8
    assert not int8 or "pip install '.[int8]'" in caplog.messages[0]


@pytest.mark.parametrize("int8", PRECISIONS)
def test_picking_rows_leaves_each_hypothesis_bit_identical(int8: bool) -> None:
    """Rows are picked, doubled and dropped over 60 steps, in which the cache drops slots; the result of each hypothesis
    is bit-identical to that of the hypothesis alone."""
    spec = validated(type(TEXT), merged(TEXT.as_dictionary(), {"d_model": 16}), place="a model")
    model = spec.build(Vocabulary(source=17, target=17)).eval().requires_grad_(False)
    stepper, (source, visible, _) = cpu_stepper(model, int8=int8), batch()
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
    cache, slots = SlotCache(2, 3, 4), np.empty((2, 8), np.int32)
    for length in range(2):
        cache.extend(slots, length)
        for row in range(2):
            cache.key_values[:, slots[row, length]] = 10 * length + row
    slots = slots[[1, 1]]  # without the first row no row uses slots 0 and 2
    cache.extend(slots, 2)
    assert cache.used == 4
    for layer in cache.key_values:
        assert layer[slots[0, :2], 0].tolist() == [1, 11]
        assert layer[slots[1, :2], 0].tolist() == [1, 11]
    assert slots[:, 2].tolist() == [2, 3]


def test_code_compiled_from_other_sources_is_forgotten(tmp_path: Path) -> None:
    """Numba could not read its index after a class had another name."""
    source = tmp_path / "module.py"
    source.write_text("first")
    entry = tmp_path / "module.function-3.py311.nbi"
    for content, kept in (("first", False), ("first", True), ("second", False)):
        source.write_text(content)
        entry.write_text("of numba")
        _forget_other_sources(tmp_path, source)
        assert entry.exists() == kept
