"""The ablated Transformer: each part is really gone, and only this part."""

import pytest
import torch

from transduce.model.model_spec import MODELS
from transduce.model.transformer import TransformerModel
from transduce.model.translation_model import Vocabulary, flops
from transduce.paper.system_presets import ABLATIONS, PRESETS
from transduce.settings import merged, validated

VOCABULARY = Vocabulary(source=50, target=50)
SIZES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "feed_forward": {"d_ff": 32}}
HEADS = {"heads": 4, "d_k": 4, "d_v": 4}


def build(preset: str, **changes: object) -> TransformerModel:
    values = merged(PRESETS[preset]["model"], {**SIZES, "mixer": HEADS, "cross": HEADS, **changes})
    torch.manual_seed(1)
    return validated(MODELS.class_of(values["kind"]), values, place="test").build(VOCABULARY).eval()


def encode(model: TransformerModel, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.encode(tokens, torch.ones_like(tokens, dtype=torch.bool))


def test_order_comes_from_positions_alone():
    tokens, order = torch.randint(3, 50, (1, 9)), torch.randperm(9)
    for preset, is_lost in (("base", False), ("no-positions", True)):
        model = build(preset)
        permuted = encode(model, tokens)[:, order]
        assert torch.allclose(permuted, encode(model, tokens[:, order]), atol=1e-5) == is_lost


def test_without_feed_forward_networks_their_parameters_and_operations_are_gone():
    whole, ablated = build("base"), build("no-feed-forward")
    network = sum(parameter.numel() for name, parameter in whole.named_parameters() if "feed_forward" in name)
    assert sum(map(torch.numel, whole.parameters())) - network == sum(map(torch.numel, ablated.parameters()))
    per_layer = 2 * 2 * 16 * 32  # two products of 16 · 32, and two operations for a multiplication
    assert sum(flops(whole.spec, VOCABULARY)) - sum(flops(ablated.spec, VOCABULARY)) == 4 * per_layer


def test_without_norm_the_sizes_of_the_states_are_free():
    tokens = torch.randint(3, 50, (2, 9))
    assert torch.allclose(encode(build("base"), tokens).std(-1, correction=0), torch.ones(2, 9), atol=1e-3)
    assert encode(build("no-norm"), tokens).std(-1).amax() > 1.5


def test_without_residual_connections_a_silent_sub_layer_forgets_its_input():
    tokens = torch.randint(3, 50, (2, 9))
    for preset, forgets in (("base", False), ("no-residual", True)):
        model = build(preset)
        with torch.no_grad():
            for layer in model.encoder:
                layer.feed_forward.outer.weight.zero_()
        assert bool((encode(model, tokens) == 0).all()) == forgets


@pytest.mark.parametrize("preset", ABLATIONS)
def test_an_ablated_model_has_no_compiled_code_and_no_export(preset):
    from transduce.exchange.engine_limits import check_is_transformer
    from transduce.search.cpu_stepper import is_covered

    model = build(preset)
    is_whole = preset == "attention-dropout"
    assert is_covered(model) == is_whole
    settings = type("Settings", (), {"model": model.spec, "linearisation": None})
    described = type("Described", (), {"config": settings})
    if is_whole:
        assert check_is_transformer(described, "an engine") is model.spec
    else:
        with pytest.raises(ValueError, match="is ablated_transformer"):
            check_is_transformer(described, "an engine")
