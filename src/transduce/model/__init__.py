"""The model: tensors in, tensors out; sections 3.1 to 3.5 of the paper.

Suggested order of reading: `attention_scores` and `attention` (3.2), `feed_forward` (3.3), `embedding` and `positions`
(3.4, 3.5), `residual` (3.1 and 5.4), `layers`, `transformer` (the whole model, 3.1), `readout` (from states to
log-probabilities and loss). The settings of each class are above it and build it.

Skip arguments named `rows` and `context` at first: search needs them, which computes hypotheses side by side
(`hypothesis_rows`) and caches earlier tokens (`kv_cache`). `local_attention` and `experts` are alternatives to the
Transformer's parts; the paper's alternatives to the Transformer are in `transduce.paper.models`. `translation_model`
and `decoder_state` serve all models; `compiled`, `cpu_stepper` and `int8` are for faster translation on a CPU.
"""

from transduce.model.attention import Attention
from transduce.model.feed_forward import FeedForward
from transduce.model.positions import Learned, Sinusoidal
from transduce.model.readout import Separate, Tied
from transduce.model.spec import ModelSpec
from transduce.model.transformer import AttentionWeights, Transformer, TransformerModel
from transduce.model.translation_model import Decoded, Symbols, TranslationModel, Vocabulary, build_without_weights

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
