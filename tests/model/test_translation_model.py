"""Properties that a model reports to training."""

import pytest
from variants import VARIANTS

from transduce.model.feed_forward import Experts, FeedForward
from transduce.model.translation_model import Vocabulary, build_without_weights
from transduce.paper.models.cells import Lstm
from transduce.paper.models.recurrent import Recurrent


@pytest.mark.parametrize(
    ("spec", "compilable"),
    [
        (VARIANTS["text"], True),
        (VARIANTS["text"].model_copy(update={"feed_forward": Experts(expert=FeedForward(d_ff=4), number=4)}), False),
        (Recurrent(d_model=4, encoder_layers=1, decoder_layers=1, cell=Lstm()), False),
    ],
    ids=["transformer", "experts", "recurrent"],
)
def test_only_a_model_of_blocks_without_experts_is_compiled(spec, compilable):
    model = build_without_weights(spec, Vocabulary(source=9, target=9))
    assert model.is_compilable == compilable
