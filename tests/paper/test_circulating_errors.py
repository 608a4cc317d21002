"""What other descriptions of the paper get wrong; each error in docs/departures.md has an assertion here."""

import math

import pytest
import torch

from transduce.model.attention import Attention
from transduce.model.attention_scores import ScaledDot
from transduce.model.embedding import sinusoids
from transduce.model.residual import Dropout
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model.translation_model import Vocabulary
from transduce.paper.models.cells import PlainCell, run_cell
from transduce.paper.table2 import PUBLISHED
from transduce.recipe.presets import BASE
from transduce.settings import merged, validated

D = 16


@pytest.fixture
def model() -> TransformerModel:
    """The base model with smaller sizes, without dropout until `train` is called."""
    heads = {"heads": 4, "d_k": 4, "d_v": 4}
    sizes = {"d_model": D, "encoder_layers": 2, "decoder_layers": 2, "mixer": heads, "cross": heads}
    torch.manual_seed(1)
    spec = validated(Transformer, merged(BASE["model"], {**sizes, "feed_forward": {"d_ff": 32}}), place="test")
    return spec.build(Vocabulary(source=50, target=50)).eval()


def test_a_recurrent_state_follows_from_the_state_before_it() -> None:
    """h_t is a function of h_{t−1} and x_t, not of h_{t+1}."""
    torch.manual_seed(1)
    cell, inputs = PlainCell(D, D), torch.randn(1, 5, D, requires_grad=True)
    outputs, _ = run_cell(cell, inputs, cell.begin(1, inputs))
    gradient = torch.autograd.grad(outputs[0, 2].sum(), inputs)[0][0].abs().sum(-1)
    assert [bool(value > 0) for value in gradient] == [True, True, True, False, False]


def test_the_output_of_a_recurrent_layer_depends_on_its_state() -> None:
    """The output is y = f(W h), not f(W x): equal inputs at two positions give different outputs."""
    torch.manual_seed(1)
    cell, inputs = PlainCell(D, D), torch.randn(1, 1, D).expand(1, 2, D)
    outputs, _ = run_cell(cell, inputs, cell.begin(1, inputs))
    assert not torch.allclose(outputs[:, 0], outputs[:, 1])


def test_values_are_projected_from_the_input_and_not_learned() -> None:
    """W^V is learned; V = X W^V changes with the input."""
    attention = Attention(heads=2, d_k=8, d_v=8).build(D)
    (_, values), (_, others) = (attention.project_key_value(torch.randn(1, 3, D)) for _ in range(2))
    assert values.shape == (1, 2, 3, 8)
    assert not torch.allclose(values, others)
    names = {name for name, _ in attention.named_parameters()}
    assert names == {"query.weight", "key_value.weight", "output.weight"}


def test_every_head_of_cross_attention_reads_the_encoder_output(model: TransformerModel) -> None:
    """The encoder output gives keys and values to all heads of every decoder layer, not to some of the heads."""
    encoded, other = torch.randn(2, 1, 5, D).unbind()
    for layer in model.decoder:
        for before, after in zip(*map(layer.cross.project_key_value, (encoded, other)), strict=True):
            assert (before - after).abs().amax((0, 2, 3)).gt(0).all()  # for each head


def test_a_feed_forward_network_is_shared_by_positions_and_not_by_layers(model: TransformerModel) -> None:
    states, order = torch.randn(1, 6, D), torch.randperm(6)
    first, second = (layer.feed_forward for layer in model.encoder)
    assert torch.allclose(first(states)[:, order], first(states[:, order]), atol=1e-6)
    assert not torch.allclose(first(states), second(states))


def test_positions_have_sines_and_cosines() -> None:
    table = sinusoids(50, D)
    assert torch.equal(table[0], torch.tensor([0.0, 1.0]).repeat(D // 2))  # the sine and the cosine of 0
    assert torch.allclose(table[:, 0::2] ** 2 + table[:, 1::2] ** 2, torch.ones(50, D // 2))


def test_scores_are_divided_by_the_root_of_the_width() -> None:
    queries, keys = torch.randn(2, 100_000, 1, 1, 64).unbind()
    scores = ScaledDot().build(1, 64)(queries, keys)
    assert scores.std().item() == pytest.approx(1.0, abs=0.02)  # dividing by d_k would leave 1/8


def test_layer_normalisation_does_not_see_other_sentences(model: TransformerModel) -> None:
    """Batch normalisation would: it takes the mean and the variance over the batch."""
    states = torch.randn(3, 5, D)
    norm = model.encoder[0].around_mixer.norm
    assert torch.allclose(norm(states)[:1], norm(states[:1]), atol=1e-6)


def test_the_third_regularisation_is_dropout_on_embeddings(model: TransformerModel) -> None:
    """Section 5.4 announces three types and has two headings; "residual dropout" describes two of the three."""
    names = [name for name, module in model.named_modules() if isinstance(module, Dropout) and module.probability > 0]
    on_sums = {"source_embedding.dropout", "target_embedding.dropout"}
    assert on_sums < set(names)
    around = [name for name in names if "around" in name]
    assert len(around) == 2 * len(list(model.encoder)) + 3 * len(list(model.decoder))  # one for each sub-layer
    assert len(names) == len(on_sums) + len(around)
    assert BASE["training"]["label_smoothing"] == 0.1


def test_big_is_two_points_better_and_not_twice_as_good() -> None:
    rows = {row.name: row for row in PUBLISHED}
    big, best = rows["Transformer (big)"], rows["ConvS2S, ensemble"]
    assert big.bleu_de is not None
    assert best.bleu_de == max(row.bleu_de or 0 for row in PUBLISHED if "Transformer" not in row.name)
    assert math.isclose(big.bleu_de - best.bleu_de, 2.04, abs_tol=1e-9)
    assert big.bleu_fr == 41.8  # of the abstract and Table 2; section 6.1 still has the 41.0 of the first version
