"""The model: tensors in, tensors out; sections 3.1 to 3.5 of the paper.

Read it from the inside out: `attention_scores` and `attention` (3.2), `feed_forward` (3.3), `embedding` and `positions`
(3.4, 3.5), `residual` (3.1 and 5.4), `layers`, `transformer` (the whole, 3.1), `readout` (from states to tokens and to
the loss). The settings of each part stand beside its class and build it.

At a first reading skip arguments named `rows` and `context`: they serve search, where hypotheses stand side by side
(`hypothesis_rows`) and earlier tokens are cached (`kv_cache`). `mixers`, `experts` and `baselines` are the
Transformer's rivals, `translation_model` and `decoder_state` what they share with it; `int8` is for fast translation.
"""

from transduce.model.attention import Attention
from transduce.model.feed_forward import FeedForward
from transduce.model.positions import Learned, Sinusoidal
from transduce.model.readout import Separate, Tied
from transduce.model.spec import ModelSpec, Symbols, Vocabulary
from transduce.model.transformer import AttentionWeights, Transformer, TransformerModel
from transduce.model.translation_model import Decoded, TranslationModel, build_without_weights

__all__ = [
    "Attention",
    "AttentionWeights",
    "Decoded",
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
