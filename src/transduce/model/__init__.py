"""The model: tensors in, tensors out; sections 3.1 to 3.5 of the paper.

Suggested reading order: `attention_scores` and `attention` (3.2), `feed_forward` (3.3), `embedding` (3.4, 3.5),
`residual` (3.1 and 5.4), `layers`, `transformer` (the whole model, 3.1), `readout` (from states to log-probabilities
and loss). The settings of each class are defined above it and build it.

At first, skip the arguments named `rows` and `context`. Only search needs them, because it computes several hypotheses
side by side and caches earlier tokens (`decoder_state`). `local_attention` and the experts of `feed_forward` are
alternatives to the Transformer's parts; the paper's alternatives to the Transformer are in `transduce.paper.models`.
`translation_model` and `decoder_state` serve all models; `compiled` and `int8` speed up translation on a CPU.
"""
