"""The model: tensors in, tensors out; sections 3.1 to 3.5 of the paper.

Read it from the inside out: `compatibility` and `attention` (3.2), `feed_forward` (3.3), `embedding` and `positions`
(3.4, 3.5), `residual` (how a sub-layer is wrapped, 3.1 and 5.4), `layers`, `transformer` (the whole, 3.1), `readout`
(from states to tokens and to the loss). Each part's settings stand beside its class and build it.

Leave out at first whatever takes `rows` or `past`: it serves search, where hypotheses stand side by side (`rows`) and
what was written is remembered (`past`). `mixers`, `experts` and `families` are what the paper argues against, `family`
and `state` what they have in common with the Transformer; `narrow` is int8, for translating.
"""

from transduce.model.attention import Attention, ExplicitCore
from transduce.model.feed_forward import FeedForward
from transduce.model.positions import Learned, Sinusoidal
from transduce.model.readout import Separate, Tied
from transduce.model.spec import ModelSpec, Symbols, Vocabulary
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model.translation_model import TranslationModel, build_without_weights

__all__ = [
    "Attention",
    "ExplicitCore",
    "FeedForward",
    "Learned",
    "ModelSpec",
    "Separate",
    "Sinusoidal",
    "Symbols",
    "Tied",
    "Transformer",
    "TransformerModel",
    "TranslationModel",
    "Vocabulary",
    "build_without_weights",
]
