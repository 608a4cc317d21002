"""ConvS2S against its equations, written out one sentence and one place at a time (Gehring et al. 2017, section 3)."""

import json
import math

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from transduce.model import ModelSpec, Vocabulary, build_without_weights
from transduce.model.baselines.convolutional import AttentionStep
from transduce.recipe.presets import PRESETS

HALF = math.sqrt(0.5)
SOURCE = torch.tensor([[5, 9, 3, 7, 4, 11], [8, 3, 6, 0, 0, 0]])
TARGET = torch.tensor([[1, 4, 4, 10, 6], [1, 12, 3, 9, 5]])
ENCODER = [{"layers": 2, "width": 6, "kernel": 3}, {"layers": 2, "width": 9, "kernel": 5}]
DECODER = [{"layers": 1, "width": 7, "kernel": 3}, {"layers": 2, "width": 4, "kernel": 2}]
SPEC = {"kind": "convolutional", "d_model": 8, "encoder": ENCODER, "decoder": DECODER, "dropout": 0.0}


def spread(module, deviation=0.4):
    """The module in float64 with weights, biases and lengths that all matter."""
    generator = torch.Generator().manual_seed(1)
    module = module.double().eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64) * deviation)
    return module


def convs2s():
    spec = TypeAdapter(ModelSpec).validate_json(json.dumps({**SPEC, "embeddings": "separate"}), strict=True)
    return spread(spec.build(Vocabulary(source=12, target=13)))


def weight_of(module):
    """g v / ‖v‖, a length for each output."""
    length, direction = module.parametrizations.weight.original0, module.parametrizations.weight.original1
    return length * direction / direction.flatten(1).norm(dim=1).view_as(length)


def mapped(linear, states):
    return states if isinstance(linear, nn.Identity) else states @ weight_of(linear).T + linear.bias


def gated(layer, states, before):
    """v([A B]) = A ⊗ σ(B) of a convolution whose kernel begins `before` places before its own."""
    weight, rows = weight_of(layer.convolution), []
    for place in range(len(states)):
        raised = layer.convolution.bias
        for tap in range(weight.shape[2]):
            heard = place - before + tap
            if 0 <= heard < len(states):
                raised = raised + weight[:, :, tap] @ states[heard]
        half = len(raised) // 2
        rows.append(raised[:half] / (1 + torch.exp(-raised[half:])))
    return torch.stack(rows)


def attended(step, states, vectors, keys, values):
    """(h + W c) √½ with d = (W h + b + g) √½, a = softmax(d · z), c = m √(1/m) Σ a (z + e) √½."""
    asked = (mapped(step.query, states) + vectors) * HALF
    powers = torch.exp(asked @ keys.T)
    many = len(keys)
    conditional = powers / powers.sum(1, keepdim=True) @ values * many * math.sqrt(1 / many)
    return (states + mapped(step.join, conditional)) * HALF


def read(model, source):
    """z and (z + e) √½ of one sentence."""
    vectors = model.source_embedding.weight[source] + model.source_positions.weight[: len(source)]
    states = mapped(model.encoder.enter, vectors)
    for layer, around in zip(model.encoder.layers, model.encoder.around, strict=True):
        states = (mapped(around, states) + gated(layer, states, layer.kernel // 2)) * HALF
    keys = mapped(model.encoder.leave, states)
    return keys, (keys + vectors) * HALF


def written(model, source, target):
    """The last states of one sentence's decoder."""
    keys, values = read(model, source)
    vectors = model.target_embedding.weight[target] + model.target_positions.weight[: len(target)]
    states = mapped(model.decoder.enter, vectors)
    for layer, around, step in zip(model.decoder.layers, model.decoder.around, model.attention, strict=True):
        raised = attended(step, gated(layer, states, layer.kernel - 1), vectors, keys, values)
        states = (mapped(around, states) + raised) * HALF
    return mapped(model.decoder.leave, states)


def test_what_a_layer_of_the_decoder_adds_is_that_of_the_equations():
    step = spread(AttentionStep(width=6, d_model=8))
    generator = torch.Generator().manual_seed(2)
    states, vectors, keys, values = (
        torch.randn(2, length, width, generator=generator, dtype=torch.float64)
        for length, width in ((4, 6), (4, 8), (5, 8), (5, 8))
    )
    visible = torch.arange(5) < torch.tensor([[5], [2]])
    found = step(states, vectors, (keys, values), visible, None)
    for row, many in enumerate((5, 2)):
        expected = attended(step, states[row], vectors[row], keys[row, :many], values[row, :many])
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-12)


def test_the_encoder_gives_keys_and_values_of_the_equations():
    model = convs2s()
    keys, values = model._encode(SOURCE, SOURCE != 0)
    for row, many in enumerate((6, 3)):
        expected = read(model, SOURCE[row, :many])
        torch.testing.assert_close((keys[row, :many], values[row, :many]), expected, rtol=0, atol=1e-12)


def test_the_decoder_is_that_of_the_equations():
    model = convs2s()
    found = model(SOURCE, SOURCE != 0, TARGET).states
    for row, many in enumerate((6, 3)):
        expected = written(model, SOURCE[row, :many], TARGET[row])
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-12)


def test_the_encoder_hears_from_each_attention_its_share_and_the_words_hear_all():
    """Section 3.4 divides by the number of attentions, fairseq by twice that; what words add to values is whole."""
    model = convs2s()
    keys, _ = model._encode(SOURCE, SOURCE != 0)
    keys[0].sum().backward()
    attentions = 3
    torch.testing.assert_close(
        model.encoder.leave.bias.grad, torch.full((8,), len(SOURCE[0]) / (2 * attentions), dtype=torch.float64)
    )
    model.zero_grad()
    with torch.no_grad():
        model.encoder.leave.parametrizations.weight.original0.zero_()  # words are heard beside the encoder alone
    _, values = model._encode(SOURCE, SOURCE != 0)
    values[0].sum().backward()
    torch.testing.assert_close(
        model.source_positions.weight.grad[:6], torch.full((6, 8), HALF, dtype=torch.float64), rtol=1e-12, atol=0
    )


def test_the_preset_is_as_large_as_others_print_of_it():
    """216M (Wu et al. 2019) of fairseq's, whose last map is 512 wide, before a softmax of its own with a bias."""

    def normalised(inputs, outputs):
        return inputs * outputs + 2 * outputs

    values = {**PRESETS["convs2s"]["model"], "embeddings": "separate"}
    spec = TypeAdapter(ModelSpec).validate_json(json.dumps(values), strict=True)
    tokens = Vocabulary(source=42_243, target=43_676)
    counted = sum(weight.numel() for weight in build_without_weights(spec, tokens).parameters())
    theirs = normalised(2048, 512) - normalised(2048, 768) + (512 + 1) * tokens.target
    assert counted + theirs == pytest.approx(215.96e6, rel=1e-5)
