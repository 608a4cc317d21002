"""The Transformer (sections 3.1 to 3.5 of the paper), and the interface that every translation model implements.

The modules are best read in this order: `attention_scores` and `attention` (section 3.2), `feed_forward` (3.3),
`embedding` (3.4 and 3.5), `residual` (3.1 and 5.4), `layers`, `transformer` (the whole model, 3.1), and `readout`,
which turns hidden states into log-probabilities or a loss. The settings of each class are defined just above it, as a
class with a `build` method.

On a first reading, ignore the arguments named `rows` and `context`. Only search uses them, because it processes several
hypotheses of a sentence at once and caches the keys and values of earlier tokens (see `decoder_state`).

`local_attention` and the mixture of experts in `feed_forward` are alternatives to parts of the Transformer. The other
architectures that the paper discusses are in `transduce.paper.models`. `translation_model` and `decoder_state` are
shared by all models; `compiled` and `int8` speed up translation on a CPU.
"""
