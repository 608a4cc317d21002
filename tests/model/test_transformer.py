"""The whole model: embeddings, shared matrices, initialisation, errors."""

import math

import pytest
import torch
from torch import Tensor, nn
from variants import BEGIN, TEXT, batch, build

from transduce.model.attention import Attention
from transduce.model.embedding import sinusoids
from transduce.model.transformer import ENCODED_AT_ONCE, Transformer, TransformerModel
from transduce.model.translation_model import Vocabulary
from transduce.settings import merged, validated


def changed(**change: object) -> Transformer:
    return validated(Transformer, merged(TEXT.as_dictionary(), change), place="a test")


def loss(model: TransformerModel) -> Tensor:
    source, visible, target_in = batch()
    return (model.readout(model(source, visible, target_in).states)[..., 4] ** 2).sum()


def test_embeddings_are_multiplied_by_the_root_of_d_model_and_positions_are_added() -> None:
    model = build(TEXT)
    tokens = torch.tensor([[5, 3, 9], [4, 4, 16]])
    for embedding in (model.source_embedding, model.target_embedding):
        for first in (0, 6):
            expected = embedding.weight[tokens] * math.sqrt(14) + sinusoids(9, 14)[first : first + 3].double()
            torch.testing.assert_close(embedding(tokens, first), expected, rtol=0, atol=1e-12)


def test_one_matrix_serves_both_embeddings_and_the_readout_and_gathers_the_gradient_of_all_three() -> None:
    shared = build(TEXT)
    matrices = [shared.source_embedding.weight, shared.target_embedding.weight, shared.readout.weight]
    assert all(matrix is matrices[0] for matrix in matrices)
    assert sum(tuple(weight.shape) == (17, 14) for weight in shared.parameters()) == 1
    separate = build(changed(embeddings="separate", readout={"kind": "separate"}), source=17)
    separate.load_state_dict(shared.state_dict())
    ours = [separate.source_embedding.weight, separate.target_embedding.weight, separate.readout.weight]
    gradients = torch.autograd.grad(loss(separate), ours)
    assert all(gradient.abs().max() > 1e-3 for gradient in gradients)
    (group,) = torch.autograd.grad(loss(shared), matrices[:1])
    torch.testing.assert_close(group, torch.stack(gradients).sum(0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("embeddings", "readout", "matrices"),
    [("shared", "tied", 1), ("shared", "separate", 2), ("separate", "tied", 2), ("separate", "separate", 3)],
)
def test_the_number_of_matrices_follows_from_what_is_shared(embeddings: str, readout: str, matrices: int) -> None:
    model = changed(embeddings=embeddings, readout={"kind": readout}).build(Vocabulary(source=17, target=17))
    assert sum(tuple(weight.shape) == (17, 14) for weight in model.parameters()) == matrices


def test_vocabularies_of_two_sizes_cannot_share_their_embeddings() -> None:
    with pytest.raises(
        ValueError, match=r"17 and 19 subwords: set `subwords\.shared: true` or `model\.embeddings: sep"
    ):
        TEXT.build(Vocabulary(source=17, target=19))
    model = changed(embeddings="separate").build(Vocabulary(source=17, target=19))
    assert (len(model.source_embedding.weight), len(model.readout.weight)) == (17, 19)


def test_the_released_codes_decoder_starts_from_zeros() -> None:
    zeros, symbol = build(changed(first_input="zeros")), build(TEXT)
    tokens = torch.tensor([[BEGIN, 5, 3]])
    first = zeros.target_embedding(tokens)
    assert torch.equal(first[0, 0], sinusoids(1, 14)[0].double())
    torch.testing.assert_close(first[0, 1:], symbol.target_embedding(tokens)[0, 1:])
    assert not torch.allclose(symbol.target_embedding(tokens)[0, 0], first[0, 0])
    # The source embedding of the begin symbol is not zeros.
    torch.testing.assert_close(zeros.source_embedding(tokens), symbol.source_embedding(tokens))


def test_post_norm_ends_normalised_and_pre_norm_has_a_norm_of_its_own_at_the_top() -> None:
    assert isinstance(build(TEXT).decoder_norm, nn.Identity)
    for norm in ("post", "pre"):
        torch.manual_seed(1)
        model = changed(norm=norm).build(Vocabulary(source=17, target=17)).eval()
        for states in (model.encode(*batch()[:2]), model(*batch()).states):
            torch.testing.assert_close(states.mean(-1), torch.zeros(states.shape[:2]), rtol=0, atol=1e-5)
            torch.testing.assert_close(states.var(-1, correction=0), torch.ones(states.shape[:2]), rtol=0, atol=1e-3)


def test_dropout_is_active_in_training_only() -> None:
    model = changed(dropout=0.3).build(Vocabulary(source=17, target=17))
    assert torch.equal(model.eval()(*batch()).states, model(*batch()).states)
    assert not torch.equal(model.train()(*batch()).states, model(*batch()).states)


def projections(heads: int, d_k: int, d_v: int, initialisation: str, is_cross: bool) -> tuple[Tensor, ...]:
    """Returns the initial W^Q, W^K and W^V of self-attention or of cross-attention in a model of width 64."""
    torch.manual_seed(1)
    attention = Attention(heads=heads, d_k=d_k, d_v=d_v).as_dictionary()
    spec = changed(d_model=64, mixer=attention, cross=attention, initialisation=initialisation)
    layer = spec.build(Vocabulary(source=17, target=17)).decoder[0]
    module = layer.cross if is_cross else layer.mixer
    keys = heads * d_k
    return module.query.weight, module.key_value.weight[:keys], module.key_value.weight[keys:]


def assert_uniform(weight: Tensor, bound: float) -> None:
    """Asserts a maximum near the bound and a mean square of bound²/3: five standard errors, 1 false alarm in 10^6."""
    assert bound * 0.98 < weight.abs().max() <= bound
    squares = (weight.detach().double() / bound) ** 2
    assert abs(squares.mean() - 1 / 3) < 5 * math.sqrt(4 / 45 / weight.numel())


@pytest.mark.parametrize("is_cross", [False, True])
def test_glorot_draws_each_projection_by_its_own_shape(is_cross: bool) -> None:
    query, keys, values = projections(5, 12, 20, "glorot", is_cross)
    assert_uniform(query, math.sqrt(6 / (64 + 60)))
    assert_uniform(keys, math.sqrt(6 / (64 + 60)))
    assert_uniform(values, math.sqrt(6 / (64 + 100)))


def test_fused_glorot_draws_the_projections_as_one_matrix() -> None:
    for weight in projections(5, 12, 20, "fused-glorot", is_cross=False):
        assert_uniform(weight, math.sqrt(6 / (64 + 60 + 60 + 100)))
    # At heads · d_k = d_model each has a gain of 1/√2.
    for weight in projections(4, 16, 16, "fused-glorot", is_cross=False):
        assert_uniform(weight, math.sqrt(6 / (64 + 64)) / math.sqrt(2))
    # In cross-attention the released code has a separate matrix for queries.
    query, keys, values = projections(5, 12, 20, "fused-glorot", is_cross=True)
    assert_uniform(query, math.sqrt(6 / (64 + 60)))
    assert_uniform(keys, math.sqrt(6 / (64 + 60 + 100)))
    assert_uniform(values, math.sqrt(6 / (64 + 60 + 100)))


def test_a_search_encodes_in_parts_what_one_batch_gives() -> None:
    torch.manual_seed(1)
    model = changed(dropout=0.0).build(Vocabulary(source=17, target=17)).eval()
    lengths = torch.randint(1, 9, (2 * ENCODED_AT_ONCE + 3, 1)).sort(0, descending=True).values
    visible = torch.arange(int(lengths.max())) < lengths
    source = torch.randint(3, 17, visible.shape).masked_fill(~visible, 0)
    encoded = model.encode(source, visible)
    state = model.start(source, visible, 9)
    for memory in (state.memory, state.pick(torch.arange(3)).memory):
        assert all(keys.mT.is_contiguous() and values.is_contiguous() for keys, values in memory)
    for layer, memory in zip(model.decoder, state.memory, strict=True):
        for actual, expected in zip(memory, layer.cross.project_key_value(encoded), strict=True):
            present = visible[:, None, :, None].expand_as(actual)
            torch.testing.assert_close(actual[present], expected[present])
            assert not actual[~present].isnan().any()


def test_normal_draws_every_matrix_with_deviation_0_02_and_biases_are_zero() -> None:
    torch.manual_seed(1)
    learned = {"kind": "learned", "max_positions": 64}
    spec = changed(d_model=64, initialisation="normal", positions=learned, readout={"kind": "separate"})
    for name, weight in spec.build(Vocabulary(source=99, target=99)).named_parameters():
        if weight.dim() > 1:
            deviations = 0.02 / math.sqrt(2 * weight.numel())
            assert abs(weight.detach().double().std() - 0.02) < 5 * deviations, name
        else:
            assert torch.equal(weight, torch.ones_like(weight) if name.endswith("norm.weight") else weight * 0), name


def test_normal_leaves_the_initial_values_of_a_compatibility() -> None:
    torch.manual_seed(1)
    attention = {"heads": 2, "d_k": 32, "d_v": 32, "compatibility": {"kind": "bilinear"}}
    model = changed(d_model=64, mixer=attention, initialisation="normal").build(Vocabulary(source=99, target=99))
    for matrices in [layer.mixer.compatibility.weight for layer in model.encoder]:
        for matrix in matrices:
            assert matrix.detach().diagonal().mean() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_initial_embeddings_have_variance_1_over_d_model_and_biases_are_zero(positions: str) -> None:
    torch.manual_seed(1)
    attention = {"heads": 3, "d_k": 5, "d_v": 6, "bias": True}
    spec = changed(d_model=64, mixer=attention, cross=attention, positions={"kind": positions})
    model = spec.build(Vocabulary(source=500, target=500))
    tables = [model.source_embedding.weight]
    tables += [model.source_embedding.positions.weight] if positions == "learned" else []
    for table in tables:
        # Five standard errors of a variance over 32,000 draws and more.
        assert table.var().item() * 64 == pytest.approx(1, abs=5 * math.sqrt(2 / 32000))
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(linears) == 2 * (3 + 2) + 3 * (3 + 3 + 2)
    assert not any(linear.bias.any() for linear in linears)
    for linear in [linears[3], linears[4]]:
        assert_uniform(linear.weight, math.sqrt(6 / (64 + 22)))


def test_the_same_seed_gives_the_same_weights() -> None:
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        model = changed(readout={"kind": "separate"}).build(Vocabulary(source=17, target=17))
        weights.append(torch.cat([weight.flatten() for weight in model.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_max_positions_bounds_the_length_with_learned_positions() -> None:
    assert build(TEXT).max_positions is None
    model = build(changed(positions={"kind": "learned", "max_positions": 8}))
    assert model.max_positions == 8
    source, visible, target_in = batch()
    model.start(source, visible, 8)
    with pytest.raises(ValueError, match="9 tokens is longer than the 8 learned positions"):
        model(source, visible, target_in)


def test_attention_weights_have_the_lengths_of_source_and_target() -> None:
    source, target = torch.randint(3, 20, (2, 5)), torch.randint(3, 20, (2, 8))
    model = TransformerModel(TEXT, Vocabulary(source=20, target=20)).eval()
    weights = model.attention_weights(source, torch.ones_like(source, dtype=torch.bool), target)
    assert {layer.shape for layer in weights.encoder} == {(2, 3, 5, 5)}
    assert {layer.shape for layer in weights.decoder} == {(2, 3, 8, 8)}
    assert {layer.shape for layer in weights.cross} == {(2, 2, 8, 5)}
