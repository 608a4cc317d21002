"""Products in int8: exact sums of rounded numbers, near the float32 products, and rows independent."""

import os
import platform
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from variants import VARIANTS

from transduce.model.int8 import Int8Linear, Int8Readout, largest_weight, quantise
from transduce.model.translation_model import Vocabulary

SIZES = [(1, 16, 8), (7, 24, 40), (33, 512, 100)]


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def reference_product(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns the int8 product in float64, from the definition: rows of integers, each with a scale."""

    def quantised(matrix: Tensor, largest: int) -> tuple[Tensor, Tensor]:
        scale = matrix.abs().amax(1, keepdim=True) / largest
        return (matrix / scale).add(128.5).floor().sub(128).double(), scale.double()

    (x, x_scales), (w, w_scales) = quantised(states, 127), quantised(weight, largest_weight())
    product = (x @ w.T) * x_scales * w_scales.T
    return product if bias is None else product + bias


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SIZES)
@pytest.mark.parametrize("biased", [True, False])
def test_the_product_is_that_of_integers_with_a_scale_a_row(rows: int, inputs: int, outputs: int, biased: bool) -> None:
    # Rows of very different sizes: a single scale for the matrix would round small rows to 0.
    states = numbers(rows, inputs) * 10.0 ** torch.arange(rows).remainder(5).sub(2).unsqueeze(1)
    weight = numbers(outputs, inputs, seed=2) * 10.0 ** torch.arange(outputs).remainder(3).sub(1).unsqueeze(1)
    bias = numbers(outputs, seed=3) if biased else None
    output = Int8Linear(weight, bias)(states)
    torch.testing.assert_close(output.double(), reference_product(states, weight, bias), rtol=1e-5, atol=1e-6)
    exact = nn.functional.linear(states, weight, bias)
    assert float((output - exact).norm() / exact.norm()) < 0.02


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="only x86 processors lack VNNI")
def test_sums_are_exact_without_vnni() -> None:
    """Without VNNI two products are added in 16 bits, too few for 8-bit weights."""
    code = """
import torch
from transduce.model.int8 import Int8Linear, largest_weight
output = Int8Linear(torch.ones(100, 512), None)(torch.ones(7, 512))
print(largest_weight(), bool(((output - 512).abs() < 1).all()))
"""
    variables = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "64 True\n"


def test_a_row_does_not_depend_on_its_companions() -> None:
    layer, states = Int8Linear(numbers(40, 64), numbers(40, seed=4)), numbers(9, 64, seed=2)
    group = layer(states)
    assert torch.equal(torch.cat([layer(row) for row in states.split(1)]), group)
    crowded = layer(torch.cat([states, 1000 * numbers(30, 64, seed=3)]))
    assert torch.equal(crowded[:9], group)
    assert torch.equal(layer(states.view(3, 3, 64)), group.view(3, 3, 40))


def test_a_row_of_zeros_gives_the_bias() -> None:
    bias = numbers(8)
    assert torch.equal(Int8Linear(numbers(8, 16), bias)(torch.zeros(2, 16)), bias.expand(2, -1))
    assert torch.equal(Int8Linear(torch.zeros(8, 16), bias)(numbers(2, 16)), bias.expand(2, -1))


@pytest.mark.parametrize("name", ["text", "norm-pre"])
def test_a_quantised_copy_is_near_the_model_which_does_not_change(name: str) -> None:
    torch.manual_seed(1)
    model = VARIANTS[name].build(Vocabulary(source=17, target=17)).eval().requires_grad_(False)
    source, target = torch.randint(3, 17, (4, 6)), torch.randint(3, 17, (4, 5))
    visible = torch.ones_like(source, dtype=torch.bool)
    exact = model.readout(model(source, visible, target).states)
    stepped = model.step(target, model.start(source, visible, 5))[0]
    quantised = quantise(model)
    assert not any(isinstance(module, nn.Linear) for module in quantised.modules())
    assert isinstance(quantised.readout, Int8Readout)
    output = quantised.step(target, quantised.start(source, visible, 5))[0]
    assert torch.equal(model.step(target, model.start(source, visible, 5))[0], stepped)
    assert quantised.target_embedding.weight is model.target_embedding.weight
    assert not torch.equal(output, stepped)
    assert float((output - exact).abs().max()) < 0.2
    torch.testing.assert_close(output.exp().sum(-1), torch.ones(4, 5))
