"""ConvS2S against its equations, by sentence and position (Gehring et al. 2017, section 3)."""

import json
import math

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary, build_without_weights
from transduce.paper.models.convolutional import AttentionStep
from transduce.paper.system_presets import PRESETS

SQRT_HALF = math.sqrt(0.5)
SOURCE = torch.tensor([[5, 9, 3, 7, 4, 11], [8, 3, 6, 0, 0, 0]])
TARGET = torch.tensor([[1, 4, 4, 10, 6], [1, 12, 3, 9, 5]])
ENCODER = [{"layers": 2, "width": 6, "kernel": 3}, {"layers": 2, "width": 9, "kernel": 5}]
DECODER = [{"layers": 1, "width": 7, "kernel": 3}, {"layers": 2, "width": 4, "kernel": 2}]
SPEC = {"kind": "convolutional", "d_model": 8, "encoder": ENCODER, "decoder": DECODER, "dropout": 0.0}


def draw_weights(module, deviation=0.4):
    """Returns the module in float64 with weights, biases and weight norms so large that all matter."""
    generator = torch.Generator().manual_seed(1)
    module = module.double().eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64) * deviation)
    return module


def convs2s():
    spec = TypeAdapter(ModelSpec).validate_json(json.dumps({**SPEC, "embeddings": "separate"}), strict=True)
    return draw_weights(spec.build(Vocabulary(source=12, target=13)))


def weight_of(module):
    """Returns g v / ‖v‖, with a g for each output."""
    length, direction = module.parametrizations.weight.original0, module.parametrizations.weight.original1
    return length * direction / direction.flatten(1).norm(dim=1).view_as(length)


def apply_linear(linear, states):
    return states if isinstance(linear, nn.Identity) else states @ weight_of(linear).T + linear.bias


def gated(layer, states, before):
    """Returns v([A B]) = A ⊗ σ(B) of a convolution whose kernel begins `before` positions before each position."""
    weight, rows = weight_of(layer.convolution), []
    for place in range(len(states)):
        output = layer.convolution.bias
        for tap in range(weight.shape[2]):
            source = place - before + tap
            if 0 <= source < len(states):
                output = output + weight[:, :, tap] @ states[source]
        half = len(output) // 2
        rows.append(output[:half] / (1 + torch.exp(-output[half:])))
    return torch.stack(rows)


def attended(step, states, vectors, keys, values):
    """Returns (h + W c) √½ with d = (W h + b + g) √½, a = softmax(d · z), c = m √(1/m) Σ a (z + e) √½."""
    query = (apply_linear(step.query, states) + vectors) * SQRT_HALF
    powers = torch.exp(query @ keys.T)
    length = len(keys)
    context = powers / powers.sum(1, keepdim=True) @ values * length * math.sqrt(1 / length)
    return (states + apply_linear(step.output, context)) * SQRT_HALF


def encode(model, source):
    """Returns z and (z + e) √½ of one sentence."""
    vectors = model.source_embedding.weight[source] + model.source_positions.weight[: len(source)]
    states = apply_linear(model.encoder.enter, vectors)
    for layer, around in zip(model.encoder.layers, model.encoder.around, strict=True):
        states = (apply_linear(around, states) + gated(layer, states, layer.kernel // 2)) * SQRT_HALF
    keys = apply_linear(model.encoder.leave, states)
    return keys, (keys + vectors) * SQRT_HALF


def decode(model, source, target):
    """Returns the last states of the decoder for one sentence."""
    keys, values = encode(model, source)
    vectors = model.target_embedding.weight[target] + model.target_positions.weight[: len(target)]
    states = apply_linear(model.decoder.enter, vectors)
    for layer, around, step in zip(model.decoder.layers, model.decoder.around, model.attention, strict=True):
        output = attended(step, gated(layer, states, layer.kernel - 1), vectors, keys, values)
        states = (apply_linear(around, states) + output) * SQRT_HALF
    return apply_linear(model.decoder.leave, states)


def test_attention_is_that_of_the_equations():
    step = draw_weights(AttentionStep(width=6, d_model=8))
    generator = torch.Generator().manual_seed(2)
    states, vectors, keys, values = (
        torch.randn(2, length, width, generator=generator, dtype=torch.float64)
        for length, width in ((4, 6), (4, 8), (5, 8), (5, 8))
    )
    visible = torch.arange(5) < torch.tensor([[5], [2]])
    output = step(states, vectors, (keys, values), visible, None)
    for row, length in enumerate((5, 2)):
        expected = attended(step, states[row], vectors[row], keys[row, :length], values[row, :length])
        torch.testing.assert_close(output[row], expected, rtol=0, atol=1e-12)


def test_keys_and_values_are_those_of_the_equations():
    model = convs2s()
    keys, values, _ = model.encode(SOURCE, SOURCE != 0).memory
    for row, length in enumerate((6, 3)):
        expected = encode(model, SOURCE[row, :length])
        torch.testing.assert_close((keys[row, :length], values[row, :length]), expected, rtol=0, atol=1e-12)


def test_the_decoder_is_that_of_the_equations():
    model = convs2s()
    states = model(SOURCE, SOURCE != 0, TARGET).states
    for row, length in enumerate((6, 3)):
        expected = decode(model, SOURCE[row, :length], TARGET[row])
        torch.testing.assert_close(states[row], expected, rtol=0, atol=1e-12)


def test_gradients_of_the_encoder_are_scaled_and_those_of_embeddings_in_the_values_are_not():
    """Section 3.4 divides by the number of attentions, fairseq by twice that number."""
    model = convs2s()
    keys = model.encode(SOURCE, SOURCE != 0).memory[0]
    keys[0].sum().backward()
    attentions = 3
    torch.testing.assert_close(
        model.encoder.leave.bias.grad, torch.full((8,), len(SOURCE[0]) / (2 * attentions), dtype=torch.float64)
    )
    model.zero_grad()
    with torch.no_grad():
        model.encoder.leave.parametrizations.weight.original0.zero_()  # the values depend on the embeddings only
    values = model.encode(SOURCE, SOURCE != 0).memory[1]
    values[0].sum().backward()
    torch.testing.assert_close(
        model.source_positions.weight.grad[:6], torch.full((6, 8), SQRT_HALF, dtype=torch.float64), rtol=1e-12, atol=0
    )


def test_the_preset_has_the_published_number_of_parameters():
    """216M (Wu et al. 2019) in fairseq, whose last map is 512 wide, before a separate softmax with a bias."""

    def normalised(inputs, outputs):
        return inputs * outputs + 2 * outputs

    values = {**PRESETS["convs2s"]["model"], "embeddings": "separate"}
    spec = TypeAdapter(ModelSpec).validate_json(json.dumps(values), strict=True)
    tokens = Vocabulary(source=42_243, target=43_676)
    counted = sum(weight.numel() for weight in build_without_weights(spec, tokens).parameters())
    difference = normalised(2048, 512) - normalised(2048, 768) + (512 + 1) * tokens.target
    assert counted + difference == pytest.approx(215.96e6, rel=1e-5)
