"""Layers and the whole model against torch's with the same weights, in float64."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from variants import batch

from transduce.model.attention import Attention, MultiHeadAttention
from transduce.model.feed_forward import FeedForward
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.residual import Dropout
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model.translation_model import Vocabulary

D_MODEL, D_FF, HEADS = 20, 22, 5  # torch fixes d_k = d_v = d_model / heads, here 4
EPSILON = 1e-3  # large, so that its place matters
SOURCE, TARGET = 7, 9

Ours = EncoderLayer | DecoderLayer
Theirs = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


class Halve(nn.Module):
    """A substitute for dropout that shows where dropout is applied."""

    def forward(self, states: Tensor) -> Tensor:
        return states / 2


def settings(norm: str = "post", activation: str = "relu") -> Transformer:
    attention = Attention(heads=HEADS, d_k=D_MODEL // HEADS, d_v=D_MODEL // HEADS, bias=True)
    return Transformer(
        d_model=D_MODEL,
        encoder_layers=2,
        decoder_layers=3,
        mixer=attention,
        cross=attention,
        feed_forward=FeedForward(d_ff=D_FF, activation=activation),
        norm=norm,
        norm_epsilon=EPSILON,
        dropout=0.0,
    )


def draw_large_weights(module: nn.Module) -> None:
    """Draws weights so large that every part matters."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(std=0.5)


def torchs(kind: type[Theirs], norm: str, activation: str = "relu") -> Theirs:
    return kind(
        D_MODEL,
        HEADS,
        D_FF,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=EPSILON,
        batch_first=True,
        norm_first=norm == "pre",
        dtype=torch.float64,
    )


@torch.no_grad()
def copy(ours: Ours, theirs: Theirs) -> None:
    """Gives torch's layer the weights of ours."""
    attentions = [(ours.mixer, theirs.self_attn)]
    norms = [(ours.around_mixer.norm, theirs.norm1)]
    last = theirs.norm2
    if isinstance(ours, DecoderLayer):
        attentions.append((ours.cross, theirs.multihead_attn))
        norms.append((ours.around_cross.norm, theirs.norm2))
        last = theirs.norm3
    norms.append((ours.around_feed_forward.norm, last))
    for attention, torch_attention in attentions:
        copy_attention(attention, torch_attention)
    linears = [(ours.feed_forward.inner, theirs.linear1), (ours.feed_forward.outer, theirs.linear2)]
    for module, torch_module in [*norms, *linears]:
        torch_module.load_state_dict(module.state_dict())


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def random_states(length: int, seed: int) -> Tensor:
    return torch.randn(4, length, D_MODEL, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def triangle() -> Tensor:
    """Returns torch's causal mask, True where attention is not allowed."""
    return torch.ones(TARGET, TARGET, dtype=torch.bool).triu(1)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("norm", "activation"), [*product(["post", "pre"], ["relu", "gelu"])])
def test_an_encoder_layer_is_torchs_own(norm: str, activation: str) -> None:
    ours, theirs = (
        EncoderLayer(settings(norm, activation).layer).double(),
        torchs(nn.TransformerEncoderLayer, norm, activation),
    )
    draw_large_weights(ours)
    copy(ours, theirs)
    states, visible = random_states(SOURCE, 2), batch().visible
    close(ours(states, visible.unsqueeze(1)).states, theirs(states, src_key_padding_mask=~visible))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_layer_is_torchs_own(norm: str) -> None:
    ours, theirs = DecoderLayer(settings(norm).layer).double(), torchs(nn.TransformerDecoderLayer, norm)
    draw_large_weights(ours)
    copy(ours, theirs)
    states, encoded, visible = random_states(TARGET, 2), random_states(SOURCE, 3), batch().visible
    output = ours(states, ours.cross.project_key_value(encoded), visible.unsqueeze(1)).states
    close(output, theirs(states, encoded, tgt_mask=triangle(), memory_key_padding_mask=~visible))


def torchs_transformer(model: TransformerModel, norm: str) -> nn.Transformer:
    """Returns torch's Transformer with the weights of the model; without last norms for post-norm, as in the paper."""
    layers = (torchs(nn.TransformerEncoderLayer, norm), torchs(nn.TransformerDecoderLayer, norm))
    last_norms = [nn.LayerNorm(D_MODEL, eps=EPSILON, dtype=torch.float64) if norm == "pre" else None for _ in layers]
    encoder = nn.TransformerEncoder(layers[0], 2, last_norms[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(layers[1], 3, last_norms[1])
    whole = nn.Transformer(D_MODEL, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    for ours, theirs in [(model.encoder, encoder.layers), (model.decoder, decoder.layers)]:
        for layer, torch_layer in zip(ours, theirs, strict=True):
            copy(layer, torch_layer)
    for norm_module, last_norm in zip((model.encoder_norm, model.decoder_norm), last_norms, strict=True):
        if last_norm is not None:
            last_norm.load_state_dict(norm_module.state_dict())
    return whole


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_whole_model_is_torchs_own(norm: str) -> None:
    model = settings(norm).build(Vocabulary(source=17, target=17)).double()
    draw_large_weights(model)
    source, visible, target_in = batch()
    theirs = torchs_transformer(model, norm)
    expected = theirs(
        model.source_embedding(source),
        model.target_embedding(target_in),
        tgt_mask=triangle(),
        src_key_padding_mask=~visible,
        memory_key_padding_mask=~visible,
    )
    states = model(source, visible, target_in).states
    close(states, expected)
    close(model.readout(states), torch.log_softmax(expected @ model.target_embedding.weight.T, -1))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_is_on_each_sub_layers_output_before_it_is_added(norm: str) -> None:
    """Section 5.4: `Halve` in place of dropout equals halving the output of each sub-layer."""
    ours, theirs = DecoderLayer(settings(norm).layer).double(), torchs(nn.TransformerDecoderLayer, norm)
    draw_large_weights(ours)
    copy(ours, theirs)
    for wrapper in (ours.around_mixer, ours.around_cross, ours.around_feed_forward):
        assert isinstance(wrapper.dropout, Dropout)
        wrapper.dropout = Halve()
    with torch.no_grad():
        for module in (theirs.self_attn.out_proj, theirs.multihead_attn.out_proj, theirs.linear2):
            module.weight /= 2
            module.bias /= 2
    states, encoded, visible = random_states(TARGET, 2), random_states(SOURCE, 3), batch().visible
    output = ours(states, ours.cross.project_key_value(encoded), visible.unsqueeze(1)).states
    close(output, theirs(states, encoded, tgt_mask=triangle(), memory_key_padding_mask=~visible))


def test_dropout_is_on_the_sums_of_embeddings_and_positions_and_off_inside_the_sub_layers() -> None:
    model = settings().build(Vocabulary(source=17, target=17)).double()
    source, _, _ = batch()
    plain = model.source_embedding(source)
    model.source_embedding.dropout = Halve()
    close(model.source_embedding(source), plain / 2)
    spec = settings()
    assert (spec.mixer.dropout, spec.cross.dropout, spec.feed_forward.dropout) == (0, 0, 0)


def test_dropout_has_the_settings_probability_everywhere() -> None:
    values = {**settings().as_dictionary(), "dropout": 0.3}
    values["feed_forward"] = {"kind": "feed_forward", "d_ff": D_FF, "dropout": 0.2}
    model = Transformer.model_validate(values).build(Vocabulary(source=17, target=17))
    probabilities = sorted(module.probability for module in model.modules() if isinstance(module, Dropout))
    # Embeddings: 2. Sub-layers: 2 in each of 2 encoder layers, 3 in each of 3 decoder layers. Feed-forward networks: 5.
    assert probabilities == [0.2] * 5 + [0.3] * (2 + 2 * 2 + 3 * 3)


def test_the_feed_forward_network_drops_after_the_activation() -> None:
    network = FeedForward(d_ff=D_FF, dropout=0.5).build(D_MODEL).double()
    network.dropout = Halve()
    states = random_states(TARGET, 2)
    hidden = torch.relu(states @ network.inner.weight.T + network.inner.bias)
    close(network(states), hidden / 2 @ network.outer.weight.T + network.outer.bias)


def test_the_feed_forward_network_is_two_convolutions_of_kernel_one() -> None:
    """Section 3.3 describes the network so."""
    network = FeedForward(d_ff=D_FF).build(D_MODEL).double()
    first = nn.Conv1d(D_MODEL, D_FF, kernel_size=1, dtype=torch.float64)
    second = nn.Conv1d(D_FF, D_MODEL, kernel_size=1, dtype=torch.float64)
    with torch.no_grad():
        for convolution, linear in [(first, network.inner), (second, network.outer)]:
            convolution.weight.copy_(linear.weight.unsqueeze(-1))
            convolution.bias.copy_(linear.bias)
    states = random_states(TARGET, 2)
    close(network(states), second(torch.relu(first(states.transpose(1, 2)))).transpose(1, 2))


def test_the_activations_are_the_named_ones() -> None:
    states = random_states(TARGET, 2)
    named = {
        "relu": lambda x: x.clamp(min=0),
        "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
        "swish": lambda x: x / (1 + torch.exp(-x)),
    }
    for name, activation in named.items():
        network = FeedForward(d_ff=D_FF, activation=name).build(D_MODEL).double()
        hidden = activation(states @ network.inner.weight.T + network.inner.bias)
        close(network(states), hidden @ network.outer.weight.T + network.outer.bias)
