"""Each model against its own paper: parameters, receptive fields and mechanisms."""

import json
import math

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from transduce.model.attention import Attention
from transduce.model.attention_scores import Dot
from transduce.model.feed_forward import Experts, FeedForward
from transduce.model.local_attention import LocalAttention
from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary
from transduce.paper.counting import count_operations
from transduce.paper.models.recurrent import SourceAttention
from transduce.paper.system_presets import PRESETS
from transduce.recipe.model_summary import summarise_model

VOCABULARY = Vocabulary(source=50, target=50)
GRU = {"kind": "gru"}


def build(spec, vocabulary=VOCABULARY):
    torch.manual_seed(1)
    model = TypeAdapter(ModelSpec).validate_json(json.dumps(spec), strict=True).build(vocabulary)
    return model.double().eval()


def dependencies(outputs, vectors):
    """Returns [n m]: whether each of `outputs` [1 n d] depends on each of `vectors` [1 m d]."""
    rows = [torch.autograd.grad(place.square().sum(), vectors, retain_graph=True)[0][0] for place in outputs[0]]
    return torch.stack([row.abs().sum(-1) > 0 for row in rows])


def is_band(dependence, before, after):
    """Returns whether each position depends on exactly those from `before` positions before to `after` after it."""
    places = torch.arange(dependence.shape[1])
    distance = places - torch.arange(dependence.shape[0]).unsqueeze(1)
    return torch.equal(dependence, (distance >= -before) & (distance <= after))


def tokens(length, seed=1):
    return torch.randint(3, 50, (1, length), generator=torch.Generator().manual_seed(seed))


def all_visible(source):
    return torch.ones_like(source, dtype=torch.bool)


# Numbers of parameters, from the descriptions in the papers.


def lstm(inputs, d):
    """Four gates, each with a matrix for the input, a matrix for the state, and torch's two biases."""
    return 4 * d * (inputs + d) + 8 * d


def linear(inputs, outputs, bias=True):
    return inputs * outputs + (outputs if bias else 0)


def gnmt(v, d=1024):
    """Eight layers in encoder and decoder; the first encoder layer is bidirectional, the bottom decoder layer attends.

    Each decoder layer reads the output of the additive attention, and a bridge gives it its initial state.
    """
    encoder = 2 * lstm(d, d) + lstm(2 * d, d) + 6 * lstm(d, d)
    attention = 2 * linear(d, d, bias=False) + d
    return v * d + encoder + 8 * lstm(2 * d, d) + attention + 8 * linear(d, d)


def convs2s(v, d=768):
    """Weight normalisation adds a parameter an output; a gated layer has twice its width; 1,024 positions."""

    def normalised(inputs, outputs):
        return inputs * outputs + 2 * outputs

    widths = [512] * 9 + [1024] * 4 + [2048] * 2
    stack = normalised(d, 512) + normalised(2048, d)
    inputs = 512
    for width in widths:
        stack += normalised(inputs * (3 if width < 2048 else 1), 2 * width)
        stack += normalised(inputs, width) if inputs != width else 0
        inputs = width
    attention = sum(normalised(width, d) + normalised(d, width) for width in widths)
    return v * d + 2 * 1024 * d + 2 * stack + attention


def bytenet(v, d=800):
    """Thirty blocks in encoder and decoder, 2d wide, d inside; three norms a block; embeddings are 2d wide."""
    block = linear(2 * d, d) + linear(3 * d, d) + linear(d, 2 * d) + 2 * (2 * d + d + d)
    return v * 2 * d + 60 * block + linear(4 * d, 2 * d) + 2 * 2 * 2 * d


def neural_gpu(v, d=512):
    """Two layers in encoder and decoder, of three 3 × 3 convolutions; the decoder has three more, without biases."""
    gated = 3 * (9 * d * d + d)
    return v * d + 4 * gated + 2 * 3 * 9 * d * d


def memory_network(v, d=150, hops=7, span=100):
    """Layerwise tying: one pair of tables and one map for any number of hops."""
    return 2 * (v * d + span * d) + d * d


@pytest.mark.parametrize(
    ("preset", "count"),
    [
        ("gnmt", gnmt),
        ("convs2s", convs2s),
        ("bytenet", bytenet),
        ("neural-gpu", neural_gpu),
        ("memory-network", memory_network),
    ],
)
def test_a_preset_has_as_many_parameters_as_its_paper_describes(preset, count):
    assert summarise_model(preset, 32_000)["parameters"] == count(32_000)


def test_recurrent_presets_have_the_parameters_of_their_parts_as_simplified_here():
    """One table for embeddings and softmax, as wide as the states, and a bridge from the encoder to each layer.

    Bahdanau et al. 2015 attend with the previous state, and have embeddings of 620 features and a maxout of 500 before
    the softmax (their appendix A), which the settings do not offer.
    """
    v, d = 32_000, 1000
    luong = v * d + 4 * lstm(d, d) + lstm(2 * d, d) + 3 * lstm(d, d) + 4 * linear(d, d) + linear(2 * d, d)
    assert summarise_model("luong", v)["parameters"] == luong
    gru = 6 * d * d + 6 * d
    decoder = gru + 3 * d * d  # reads a token and the attention output
    rnnsearch = v * d + 2 * gru + decoder + linear(2 * d, d)
    rnnsearch += linear(d, d, False) + linear(2 * d, d, False) + d + linear(3 * d, d)
    assert summarise_model("rnnsearch", v)["parameters"] == rnnsearch


@pytest.mark.parametrize(
    ("preset", "vocabulary", "difference", "published", "tolerance"),
    [
        # See, Luong and Manning 2016: without input feeding and bridges, with a readout of its own.
        ("luong", 50_000, 50_000 * 1000 - 4 * 1000**2 - 4 * linear(1000, 1000), 216e6, 0.005),
        # Shazeer et al. 2017: without bridges, with a readout of its own.
        ("gnmt", 32_000, 32_000 * 1024 - 8 * linear(1024, 1024), 278e6, 0.015),
    ],
)
def test_a_preset_has_the_published_number_of_parameters(preset, vocabulary, difference, published, tolerance):
    separate = summarise_model(preset, vocabulary)["parameters"] + vocabulary * PRESETS[preset]["model"]["d_model"]
    assert separate + difference == pytest.approx(published, rel=tolerance)


def test_experts_add_many_parameters_and_little_arithmetic():
    base, experts = summarise_model("base"), summarise_model("experts")
    network = 2 * 512 * 2048 + 2048 + 512
    assert experts["parameters"] - base["parameters"] == 12 * (15 * network + 2 * 16 * 512)
    assert experts["flops_per_target_token"] / base["flops_per_target_token"] < 1.6  # two of sixteen experts a token


# Receptive fields and mechanisms.


@pytest.mark.parametrize(("layers", "kernel"), [(1, 3), (3, 3), (2, 5)])
def test_a_convolutional_encoder_hears_of_what_its_kernels_cover_and_its_decoder_of_what_is_before(layers, kernel):
    blocks = [{"layers": layers, "width": 12, "kernel": kernel}]
    model = build({"kind": "convolutional", "d_model": 10, "encoder": blocks, "decoder": blocks, "dropout": 0.0})
    vectors = torch.randn(1, 17, 10, dtype=torch.float64, requires_grad=True)
    model.source_embedding.forward = lambda source: vectors
    keys = model.encode(tokens(17), all_visible(tokens(17))).memory[0]
    assert is_band(dependencies(keys, vectors), layers * (kernel // 2), layers * (kernel // 2))
    model.source_embedding.forward = lambda source: vectors.detach()
    model.target_embedding.forward = lambda target: vectors
    states = model(tokens(17), all_visible(tokens(17)), tokens(17)).states
    assert is_band(dependencies(states, vectors), layers * (kernel - 1), 0)


def test_every_layer_of_a_convolutional_decoder_attends_and_gates():
    blocks = [{"layers": 3, "width": 12, "kernel": 3}]
    model = build({"kind": "convolutional", "d_model": 10, "encoder": blocks, "decoder": blocks, "dropout": 0.0})
    source, target = tokens(5), tokens(6, 2)
    whole = model(source, all_visible(source), target).states
    for attention in model.attention:
        bias = attention.query.bias.detach().clone()
        with torch.no_grad():
            attention.query.bias.add_(10 * torch.randn_like(bias))
        assert not torch.allclose(model(source, all_visible(source), target).states, whole)
        with torch.no_grad():
            attention.query.bias.copy_(bias)
    assert torch.allclose(model(source, all_visible(source), target).states, whole)
    layer = next(iter(model.decoder.layers))
    with torch.no_grad():
        layer.convolution.bias[12:] = -1e4  # closes the gate
    padded = torch.randn(1, 8, 12, dtype=torch.float64)
    assert not layer(padded).any()


def test_recurrent_attention_is_that_of_the_equations():
    """e_i = s · h_i, α = softmax(e), a = Σ α_i h_i, s̄ = tanh(W_c [a; s] + b_c) (Luong et al. 2015)."""
    torch.manual_seed(1)
    attention = SourceAttention(Dot(), 6, 6, combines=True).double()
    states, encoded = torch.randn(1, 3, 6, dtype=torch.float64), torch.randn(1, 5, 6, dtype=torch.float64)
    visible = torch.tensor([[True] * 4 + [False]])
    outputs = attention(states, attention.project_key_value(encoded), visible)[0].detach()
    weight, bias = attention.combine.weight.detach(), attention.combine.bias.detach()
    for state, output in zip(states[0], outputs):
        powers = [math.exp(float(state @ source)) for source in encoded[0, :4]]
        attended = sum(power / sum(powers) * source for power, source in zip(powers, encoded[0]))
        torch.testing.assert_close(output, torch.tanh(weight @ torch.cat([attended, state]) + bias))


@pytest.mark.parametrize(("directions", "after"), [("forwards", 0), ("both", 7), ("both_first", 7)])
def test_a_recurrent_encoder_reads_in_its_directions(directions, after):
    """A state depends on later tokens only through cells that read backwards."""
    model = build(
        {
            "kind": "recurrent",
            "d_model": 6,
            "cell": GRU,
            "directions": directions,
            "dropout": 0.0,
            "embeddings": "separate",
        }
    )
    vectors = torch.randn(1, 8, 6, dtype=torch.float64, requires_grad=True)
    states, visible = vectors, all_visible(tokens(8))
    for layer in model.encoder:
        states, _ = layer(states, visible)
    assert is_band(dependencies(states, vectors), 7, after)


def test_a_step_of_a_neural_gpu_reaches_as_far_as_its_kernel():
    spec = {"kind": "neural_gpu", "d_model": 6, "layers": 1, "height": 2, "dropout": 0.0}
    layer = next(iter(build(spec).encoder))
    memory = torch.randn(1, 6, 9, 2, dtype=torch.float64, requires_grad=True)
    columns = layer(memory, torch.ones(1, 1, 9, 1, dtype=torch.float64)).permute(0, 2, 3, 1)
    gradients = [torch.autograd.grad(columns[0, n].square().sum(), memory, retain_graph=True)[0] for n in range(9)]
    # A kernel of three reaches one column, and the gate on its input one more.
    assert is_band(torch.stack([gradient[0].abs().sum((0, 2)) > 0 for gradient in gradients]), 2, 2)


def test_a_convolutional_encoder_preserves_the_variance_of_its_input():
    blocks = [{"layers": 12, "width": 256, "kernel": 3}]
    model = build({"kind": "convolutional", "d_model": 256, "encoder": blocks, "decoder": blocks, "dropout": 0.0})
    vectors = 0.1 * torch.randn(4, 60, 256, dtype=torch.float64)  # the deviation of initial embeddings
    model.source_embedding.forward = lambda source: vectors
    keys = model.encode(tokens(60).expand(4, -1), torch.ones(4, 60, dtype=torch.bool)).memory[0]
    assert 0.5 < float(keys.detach().std()) / 0.1 < 2


def test_a_bytenets_field_is_the_sum_of_its_dilations():
    spec = {"kind": "bytenet", "d_model": 12, "sets": 2, "dilations": [1, 2, 4], "dropout": 0.0, "stretch": 1.0}
    model = build(spec)
    vectors = torch.randn(1, 40, 12, dtype=torch.float64, requires_grad=True)
    model.source_embedding.forward = lambda source: vectors
    around = 2 * (1 + 2 + 4)  # a kernel of 3 reaches one dilation on either side
    (columns,) = model.encode(tokens(40), all_visible(tokens(40))).memory
    assert is_band(dependencies(columns, vectors), around, around)
    model.source_embedding.forward = lambda source: vectors.detach()
    model.target_embedding.forward = lambda target: vectors
    states = model(tokens(40), all_visible(tokens(40)), tokens(40)).states
    assert is_band(dependencies(states, vectors), 2 * around, 0)


def test_a_bytenets_decoder_unfolds_over_the_encoder():
    """Target token t reads column t, and zeros beyond the last column."""
    model = build({"kind": "bytenet", "d_model": 12, "sets": 1, "dilations": [1, 2], "dropout": 0.0})
    source, target = tokens(5), tokens(11, 2)
    encoded = model.encode(source, all_visible(source))
    columns = encoded.memory[0].detach().requires_grad_()
    assert columns.shape[1] == math.ceil(1.2 * 5)
    model.encode = lambda source, visible: ((columns,), encoded.carried)
    states = model(source, all_visible(source), target).states
    dependence = dependencies(states, columns)
    field = 2 * (1 + 2)
    expected = [[max(0, t - field) <= column <= t for column in range(6)] for t in range(11)]
    assert torch.equal(dependence, torch.tensor(expected))


def test_a_neural_gpus_memory_is_worked_on_once_for_each_column_and_whole():
    spec = {"kind": "neural_gpu", "d_model": 6, "layers": 1, "height": 2, "stretch": 1.0, "extra": 0, "dropout": 0.0}
    model = build(spec)
    changes = []
    for layer in model.encoder:
        layer.register_forward_hook(
            lambda module, inputs, memory: changes.append((inputs[0] - memory).abs().amax((0, 1, 3)))
        )
    for length in (3, 7):
        changes.clear()
        model.encode(tokens(length), all_visible(tokens(length)))
        assert len(changes) == length
        assert all(bool((changed > 0).all()) for changed in changes)  # every column in every step


def test_a_neural_gpus_tape_is_active():
    """A token on the tape changes the memory in every later step; a closed gate keeps the memory."""
    spec = {"kind": "neural_gpu", "d_model": 6, "layers": 1, "height": 2, "dropout": 0.0}
    model = build(spec)
    source, target = tokens(4), tokens(5, 2)
    encoded = model.encode(source, all_visible(source))
    original, (_, original_tape) = model.decode_rows(target, 0, *encoded, None)
    changed = target.clone()
    changed[0, 0] = 3 if int(target[0, 0]) != 3 else 4
    states, (_, tape) = model.decode_rows(changed, 0, *encoded, None)
    assert (states - original).abs().amax(-1).gt(0).all()
    assert not torch.equal(tape[:, :, 0], original_tape[:, :, 0])
    assert torch.equal(tape[:, :, 1:5], original_tape[:, :, 1:5])
    layer = next(iter(model.decoder))
    with torch.no_grad():
        layer.gates.bias[:6] = 1e4
    image, _ = encoded.carried
    assert torch.allclose(model.decode_rows(target, 0, *encoded, None)[1][0], image)


@pytest.mark.parametrize(("tying", "tables"), [("adjacent", 4), ("layerwise", 2), ("untied", 6)])
def test_a_memory_networks_maps_are_tied_as_they_are_called(tying, tables):
    model = build({"kind": "memory_network", "d_model": 8, "hops": 3, "span": 4, "tying": tying, "dropout": 0.0})
    assert len(list(model.tables)) == tables
    pairs = [tuple(map(id, model.tables_of(hop))) for hop in range(3)]
    shared = {
        "adjacent": pairs[0][1] == pairs[1][0] and pairs[1][1] == pairs[2][0],
        "layerwise": pairs[0] == pairs[1] == pairs[2],
        "untied": len({table for pair in pairs for table in pair}) == 6,
    }
    assert shared[tying]


def test_a_memory_network_needs_its_hops():
    """Hops change the result, because a later hop reads with the output of the hop before."""
    torch.manual_seed(1)
    one_hop, three_hops = (
        build({"kind": "memory_network", "d_model": 8, "hops": hops, "span": 4, "tying": "layerwise", "dropout": 0.0})
        for hops in (1, 3)
    )
    three_hops.load_state_dict(one_hop.state_dict())
    source, target = tokens(6), tokens(4, 2)
    states = [model(source, all_visible(source), target).states for model in (one_hop, three_hops)]
    assert not torch.allclose(*states)
    # Target tokens beyond the span have no effect.
    vectors = [
        three_hops(source, all_visible(source), torch.cat([first, tokens(7, 3)], dim=1)).states
        for first in (tokens(1), tokens(1, 9))
    ]
    changed = (vectors[0] - vectors[1]).abs().amax(-1)[0] > 0
    assert changed.tolist() == [True] * 4 + [False] * 4


def test_input_feeding_gives_a_step_the_attention_output_of_the_step_before():
    def spec(feeding):
        return {
            "kind": "recurrent", "d_model": 8, "cell": GRU, "dropout": 0.0, "input_feeding": feeding,
            "encoder_layers": 1, "decoder_layers": 1,
        }  # fmt: skip

    for feeding in (True, False):
        model = build(spec(feeding))
        source, target = tokens(5), tokens(4, 2)
        whole = model(source, all_visible(source), target).states
        bias = model.attention.combine.bias.detach().clone()
        fed = []
        cell = next(iter(model.decoder))
        advance = cell.advance
        cell.advance = lambda projected, carried, fed=fed, advance=advance: (
            fed.append(projected) or advance(projected, carried)
        )
        model(source, all_visible(source), target)
        before = torch.stack(fed)
        fed.clear()
        with torch.no_grad():
            model.attention.combine.bias.copy_(bias + 1)
        assert not torch.allclose(model(source, all_visible(source), target).states, whole)
        assert torch.equal(before[0], torch.stack(fed)[0])
        assert torch.equal(before[1:], torch.stack(fed)[1:]) != feeding


DEEP = {
    "kind": "recurrent", "d_model": 8, "cell": {"kind": "lstm"}, "dropout": 0.0, "encoder_layers": 2,
    "decoder_layers": 4, "directions": "both_first", "compatibility": {"kind": "additive"}, "residual": True,
}  # fmt: skip


def run_with_attention(model):
    """Returns the attention output of every step, and the last states."""
    source, target, outputs = tokens(5), tokens(4, 2), []
    hook = model.attention.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    states = model(source, all_visible(source), target).states
    hook.remove()
    return torch.cat(outputs, dim=1), states


@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("attending", ["bottom", "top"])
def test_attention_depends_on_layers_up_to_the_attending_one_only(attending, feeding):
    """Wu et al. 2016, section 3: the bottom layer attends, so that no step waits for the layers above it."""
    model = build({**DEEP, "attending": attending, "input_feeding": feeding})
    attended, states = run_with_attention(model)
    for number, cell in enumerate(model.decoder):
        with torch.no_grad():
            cell.from_input.bias.add_(1)
        changed_attended, changed = run_with_attention(model)
        with torch.no_grad():
            cell.from_input.bias.sub_(1)
        assert not torch.allclose(changed, states)
        assert torch.allclose(changed_attended, attended) == (attending == "bottom" and number > 0)


def test_every_layer_reads_the_attention_output_of_the_bottom_layer():
    model = build({**DEEP, "attending": "bottom"})
    run_with_attention(model)[1].square().sum().backward()
    for cell in model.decoder:
        assert cell.from_input.weight.grad[:, 8:].abs().sum(1).gt(0).all()
    fed, unfed = (list(build({**DEEP, "attending": "bottom", "input_feeding": on}).decoder) for on in (True, False))
    assert [cell.from_input.in_features for cell in fed] == [16, 16, 16, 16]
    assert [cell.from_input.in_features for cell in unfed] == [8, 16, 16, 16]


def test_attention_at_the_bottom_needs_two_layers():
    with pytest.raises(ValueError, match=r"set `decoder_layers` to 2 or more, or `attending: top`"):
        build({**DEEP, "attending": "bottom", "decoder_layers": 1})


@pytest.mark.parametrize("directions", ["forwards", "both"])
def test_initial_cells_receive_tokens_with_the_variance_of_unit_inputs(directions):
    """Unit inputs times uniform weights in ±1/√inputs have variance 1/3; initial token vectors have length 1."""
    model = build({**DEEP, "d_model": 256, "directions": directions}).float()
    bottom = next(iter(model.encoder))
    readers = [(bottom.forwards, model.source_embedding), (bottom.backwards, model.source_embedding)]
    readers += [(next(iter(model.decoder)), model.target_embedding)]
    for cell, table in readers:
        if cell is not None:
            variance = nn.functional.linear(table(tokens(40))[0], cell.from_input.weight[:, :256]).detach().var()
            assert float(variance) == pytest.approx(1 / 3 * 256 / cell.from_input.in_features, rel=0.2)


def test_residual_connections_begin_at_the_third_layer():
    spec = {
        "kind": "recurrent", "d_model": 8, "cell": {"kind": "lstm"}, "dropout": 0.0, "encoder_layers": 4,
        "decoder_layers": 4, "directions": "both_first",
    }  # fmt: skip
    plain, residual = build(spec), build({**spec, "residual": True})
    residual.load_state_dict(plain.state_dict())
    inputs = torch.randn(1, 5, 8, dtype=torch.float64)
    outputs = torch.randn(1, 5, 8, dtype=torch.float64)
    assert [torch.equal(residual._add_residual(inputs, outputs, n), outputs + inputs) for n in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    assert all(torch.equal(plain._add_residual(inputs, outputs, n), outputs) for n in range(4))
    assert [layer.backwards is not None for layer in residual.encoder] == [True, False, False, False]
    source, target = tokens(5), tokens(4, 2)
    assert not torch.allclose(*(model(source, all_visible(source), target).states for model in (plain, residual)))


@pytest.mark.parametrize("causal", [False, True])
def test_restricted_attention_is_attention_with_a_band(causal):
    torch.manual_seed(1)
    spec = LocalAttention(heads=2, d_k=4, d_v=4, neighbours=3)
    local, full = spec.build(8).double(), Attention(heads=2, d_k=4, d_v=4).build(8).double()
    full.load_state_dict(local.state_dict())
    states = torch.randn(2, 23, 8, dtype=torch.float64, requires_grad=True)
    distance = torch.arange(23) - torch.arange(23).unsqueeze(1)
    band = (distance >= -3) & (distance <= (0 if causal else 3))
    memory = full.project_key_value(states)
    torch.testing.assert_close(local.mix(states, None, causal), full(states, memory, band.unsqueeze(0)))
    assert torch.equal(dependencies(local.mix(states, None, causal)[:1], states)[:, :], band)


def test_restricted_attention_is_linear_in_the_length():
    """With 65,536 positions the scores of all pairs would take 16 GiB."""
    module = LocalAttention(heads=1, d_k=4, d_v=4, neighbours=16).build(4).eval()
    costs = {}
    for n in (4096, 65536):
        states = torch.randn(1, n, 4, generator=torch.Generator().manual_seed(n))
        saved_sizes = []

        def record_size(tensor, saved_sizes=saved_sizes):
            saved_sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(record_size, lambda tensor: tensor):
            arithmetic = count_operations(lambda states=states: module.mix(states.requires_grad_(), None, causal=False))
        costs[n] = (arithmetic, sum(saved_sizes))
    assert costs[65536][0] == pytest.approx(16 * costs[4096][0], rel=0.01)
    assert costs[65536][1] == pytest.approx(16 * costs[4096][1], rel=0.01)
    assert costs[65536][1] < 65536 * 2000


def test_a_word_goes_through_its_best_experts_alone():
    torch.manual_seed(1)
    module = Experts(expert=FeedForward(d_ff=12), number=5, chosen=2).build(6).double().eval()
    states = torch.randn(7, 6, dtype=torch.float64)
    scores = module.gate(states).float()
    best, chosen = scores.topk(2, dim=-1)
    weights = best.softmax(-1).double()
    expected = sum(
        weights[:, place, None]
        * torch.stack([module.experts[int(e)](row) for e, row in zip(chosen[:, place], states, strict=True)])
        for place in range(2)
    )
    torch.testing.assert_close(module(states)[0], expected)


def test_the_gradient_of_the_penalty_balances_the_experts():
    torch.manual_seed(1)
    module = Experts(expert=FeedForward(d_ff=4), number=4, chosen=1, balance=1.0).build(4).train()
    with torch.no_grad():
        module.gate.weight.zero_()
        module.noise.weight.zero_()
        module.gate.weight[0] = 0.3  # one expert is best for every token
    states = torch.rand(400, 4) + 0.5

    def penalty_and_share():
        torch.manual_seed(2)
        _, penalty = module(states)
        return float(penalty.detach()), float((module.gate(states).argmax(-1) == 0).float().mean())

    unbalanced, share = penalty_and_share()
    assert share == 1.0
    optimiser = torch.optim.SGD(module.gate.parameters(), lr=0.2)
    for _ in range(60):
        torch.manual_seed(2)
        _, penalty = module(states)
        optimiser.zero_grad()
        penalty.backward()
        optimiser.step()
    assert penalty_and_share()[0] < 0.3 * unbalanced
    assert isinstance(module.gate, nn.Linear)
