"""Attention against torch's and against equation 1 in NumPy."""

import math
import subprocess
import sys
import typing
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from transduce.model.attention import Attention, ExplicitCore, FusedCore, MultiHeadAttention
from transduce.model.attention_scores import Compatibility, DotProduct
from transduce.settings import validated

TARGET, SOURCE, D_MODEL = 9, 7, 14


def built(spec: Attention, d_model: int = D_MODEL) -> MultiHeadAttention:
    torch.manual_seed(1)
    attention = spec.build(d_model).double()
    with torch.no_grad():
        for weight in attention.parameters():
            weight.normal_(std=0.5)
    return attention


def random_states(length: int, d_model: int = D_MODEL, seed: int = 2) -> Tensor:
    return torch.randn(4, length, d_model, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def padded(lengths: tuple[int, ...] = (7, 3, 5, 1)) -> Tensor:
    return torch.arange(SOURCE) < torch.tensor(lengths).unsqueeze(1)


# Scores of queries [target d_k] and keys [source d_k], with the weights of a head where it has any: section 3.2.1, and
# the papers that `attention_scores` names.
SCORES = {
    "scaled_dot": lambda q, k, weight: q @ k.T / math.sqrt(k.shape[1]),
    "dot": lambda q, k, weight: q @ k.T,
    "bilinear": lambda q, k, weight: q @ weight @ k.T / math.sqrt(k.shape[1]),
    "additive": lambda q, k, weight: np.tanh(q[:, None] + k[None]) @ weight,
}


def equation_1(attention: MultiHeadAttention, states: Tensor, attended: Tensor, visible: np.ndarray) -> np.ndarray:
    """Returns Concat(head_1 … head_h) W^O, computed by sentence and head; `visible` is [batch target source]."""
    spec = attention.spec
    weights = {name: weight.detach().numpy() for name, weight in attention.named_parameters()}
    keys = spec.heads * spec.d_k
    bias = {name: weights.get(f"{name}.bias", np.zeros(1)) for name in ("query", "key_value", "output")}
    outputs = np.empty((len(states), states.shape[1], attention.output.out_features))
    for sentence, (inputs, memory) in enumerate(zip(states.numpy(), attended.numpy())):
        query = inputs @ weights["query.weight"].T + bias["query"]
        key_value = memory @ weights["key_value.weight"].T + bias["key_value"]
        heads = []
        for head in range(spec.heads):
            q = query[:, head * spec.d_k : (head + 1) * spec.d_k]
            k = key_value[:, head * spec.d_k : (head + 1) * spec.d_k]
            v = key_value[:, keys + head * spec.d_v : keys + (head + 1) * spec.d_v]
            weight = weights["compatibility.weight"][head] if "compatibility.weight" in weights else None
            scores = SCORES[spec.compatibility.kind](q, k, weight)
            powers = np.where(visible[sentence], np.exp(scores), 0)
            heads.append(powers / powers.sum(1, keepdims=True) @ v)
        outputs[sentence] = np.concatenate(heads, axis=1) @ weights["output.weight"].T + bias["output"]
    return outputs


@pytest.mark.parametrize(("core", "bias"), [*product([FusedCore, ExplicitCore], [False, True])])
def test_attention_is_equation_1_head_by_head(core: type[nn.Module], bias: bool) -> None:
    attention = built(Attention(heads=3, d_k=5, d_v=6, bias=bias))
    attention.core = core()
    states, attended, visible = random_states(TARGET), random_states(SOURCE, seed=3), padded()
    output = attention(states, attention.project_key_value(attended), visible.unsqueeze(1))
    expected = equation_1(attention, states, attended, visible.unsqueeze(1).expand(-1, TARGET, -1).numpy())
    np.testing.assert_allclose(output.detach().numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("core", [FusedCore, ExplicitCore])
def test_each_compatibility_is_its_formula(core: type[nn.Module], kind: str) -> None:
    values = {"heads": 3, "d_k": 5, "d_v": 6, "compatibility": {"kind": kind}}
    attention = built(validated(Attention, values, place="attention"))
    attention.core = core()
    states, attended, visible = random_states(TARGET), random_states(SOURCE, seed=3), padded()
    output = attention(states, attention.project_key_value(attended), visible.unsqueeze(1))
    expected = equation_1(attention, states, attended, visible.unsqueeze(1).expand(-1, TARGET, -1).numpy())
    np.testing.assert_allclose(output.detach().numpy(), expected, rtol=0, atol=1e-12)


def test_every_compatibility_has_its_formula() -> None:
    members = typing.get_args(typing.get_args(Compatibility)[0])
    assert {member.model_fields["kind"].default for member in members} == SCORES.keys()


@pytest.mark.parametrize("core", [FusedCore, ExplicitCore])
def test_causal_attention_is_equation_1_under_a_triangle(core: type[nn.Module]) -> None:
    attention = built(Attention(heads=3, d_k=5, d_v=6))
    attention.core = core()
    states = random_states(TARGET)
    output = attention(states, attention.project_key_value(states), causal=True)
    triangle = np.tril(np.ones((4, TARGET, TARGET), dtype=bool))
    np.testing.assert_allclose(
        output.detach().numpy(), equation_1(attention, states, states, triangle), rtol=0, atol=1e-12
    )


def test_explicit_and_fused_cores_are_one_and_their_gradients_too() -> None:
    attention = built(Attention(heads=3, d_k=5, d_v=6, bias=True))
    states, attended = random_states(TARGET).requires_grad_(), random_states(SOURCE, seed=3).requires_grad_()
    mask = torch.rand(4, TARGET, SOURCE, generator=torch.Generator().manual_seed(4)) < 0.6
    mask[:, :, 0] = True
    results = []
    for core in (FusedCore(), ExplicitCore()):
        attention.core = core
        output = attention(states, attention.project_key_value(attended), mask)
        inputs = [states, attended, *attention.parameters()]
        results.append([output, *torch.autograd.grad((output**2).sum(), inputs)])
    for fused, explicit in zip(*results):
        torch.testing.assert_close(fused, explicit, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_attention_is_torchs_own(bias: bool) -> None:
    # torch fixes d_k = d_v = d_model / heads.
    attention = built(Attention(heads=3, d_k=5, d_v=5, bias=bias), d_model=15)
    torchs = nn.MultiheadAttention(15, 3, bias=bias, batch_first=True, dtype=torch.float64)
    names = ["weight", "bias"] if bias else ["weight"]
    with torch.no_grad():
        for name in names:
            parts = [getattr(attention.query, name), getattr(attention.key_value, name)]
            getattr(torchs, f"in_proj_{name}").copy_(torch.cat(parts))
            getattr(torchs.out_proj, name).copy_(getattr(attention.output, name))
    states, attended, visible = random_states(TARGET, 15), random_states(SOURCE, 15, seed=3), padded()
    attention.core = ExplicitCore()
    output = attention(states, attention.project_key_value(attended), visible.unsqueeze(1))
    expected, weights = torchs(states, attended, attended, key_padding_mask=~visible, average_attn_weights=False)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(attention.weights(states, attended, visible.unsqueeze(1)), weights, rtol=0, atol=1e-12)


def test_the_explicit_core_keeps_weights_that_sum_to_one_over_what_is_visible() -> None:
    attention = built(Attention(heads=3, d_k=5, d_v=6))
    visible = padded()
    weights = attention.weights(random_states(TARGET), random_states(SOURCE), visible.unsqueeze(1))
    assert isinstance(weights, Tensor)
    assert weights.shape == (4, 3, TARGET, SOURCE)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 3, TARGET, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.equal(weights > 0, visible[:, None, None, :].expand(weights.shape))


@pytest.mark.parametrize("kind", ["scaled_dot", "dot", "bilinear"])
@pytest.mark.parametrize(("masked", "causal"), [(False, False), (True, False), (False, True)])
def test_the_fused_call_of_other_devices_has_the_results_and_gradients_of_the_explicit_core(
    kind: str, masked: bool, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention = built(validated(Attention, {"heads": 3, "d_k": 5, "d_v": 6, "compatibility": {"kind": kind}}, place=""))
    states, attended = random_states(TARGET).requires_grad_(), random_states(SOURCE, seed=3).requires_grad_()
    mask = torch.rand(4, TARGET, SOURCE, generator=torch.Generator().manual_seed(4)) < 0.6
    mask[:, :, 0] = True
    calls, fused_call = [], functional.scaled_dot_product_attention

    def counted(*arguments: Tensor, **options: Any) -> Tensor:
        calls.append(options)
        return fused_call(*arguments, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(Tensor, "is_cpu", False)
    results = []
    for core in (FusedCore(), ExplicitCore()):
        attention.core = core
        output = attention(states, attention.project_key_value(attended), mask if masked else None, causal)
        results.append([output, *torch.autograd.grad((output**2).sum(), [states, attended, *attention.parameters()])])
    assert len(calls) == 1
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("core", [FusedCore(), ExplicitCore()])
def test_dropout_zeroes_weights_and_scales_the_rest(
    core: nn.Module, on_cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "is_cpu", on_cpu)
    generator = torch.Generator().manual_seed(5)
    query, keys = (torch.randn(2, 3, length, 5, generator=generator) for length in (40, 30))
    weights = core(DotProduct(0.5), query, keys, torch.eye(30).expand(2, 3, 30, 30), None, False, 0.0)
    dropped = core(DotProduct(0.5), query, keys, torch.eye(30).expand(2, 3, 30, 30), None, False, 0.25)
    ratio = dropped / weights
    zeros = ratio < 1e-6
    # 7,200 weights: five standard deviations are 184, one false alarm in 1.7 million.
    assert abs(int(zeros.sum()) - 1800) < 184
    torch.testing.assert_close(ratio[~zeros], torch.full_like(ratio[~zeros], 4 / 3))


def test_attention_drops_only_in_training() -> None:
    attention = built(Attention(heads=3, d_k=5, d_v=6, dropout=0.5))
    plain = built(Attention(heads=3, d_k=5, d_v=6))
    states, attended = random_states(TARGET), random_states(SOURCE, seed=3)
    expected = plain(states, plain.project_key_value(attended))
    torch.testing.assert_close(
        attention.eval()(states, attention.project_key_value(attended)), expected, rtol=0, atol=1e-12
    )
    assert not torch.allclose(attention.train()(states, attention.project_key_value(attended)), expected)


def test_several_heads_cost_what_one_full_head_costs() -> None:
    """Section 3.2.2: with d_k = d_v = d_model / h the arithmetic and the parameters are those of one full head."""
    counts = []
    for heads in (1, 4):
        attention = Attention(heads=heads, d_k=16 // heads, d_v=16 // heads).build(16)
        attention.core = ExplicitCore()
        with FlopCounterMode(display=False) as flops:
            attention(torch.randn(2, TARGET, 16), attention.project_key_value(torch.randn(2, SOURCE, 16)))
        counts.append((sum(weight.numel() for weight in attention.parameters()), flops.get_total_flops()))
    assert counts[0] == counts[1]
    # Four products of 16 by 16 a token, and two of 16 a pair of tokens; an addition and a multiplication each.
    assert counts[0] == (4 * 16 * 16, 2 * 2 * (2 * (TARGET + SOURCE) * 16 * 16 + 2 * TARGET * SOURCE * 16))


def test_the_projection_of_keys_counts_d_k_and_that_of_values_d_v() -> None:
    attention = Attention(heads=3, d_k=5, d_v=7).build(D_MODEL)
    shapes = [tuple(weight.shape) for weight in attention.parameters()]
    assert shapes == [(3 * 5, D_MODEL), (3 * 5 + 3 * 7, D_MODEL), (D_MODEL, 3 * 7)]


def test_cudnns_attention_is_switched_off() -> None:
    command = "import torch, transduce.model.attention; print(torch.backends.cuda.cudnn_sdp_enabled())"
    assert subprocess.check_output([sys.executable, "-c", command], text=True).strip() == "False"
