"""Initial weights of the Transformer, which the paper does not describe."""

from collections.abc import Collection
from typing import Literal

import torch
from torch import nn

from transduce.model.attention import MultiHeadAttention
from transduce.model.embedding import Embedding, LearnedPositions
from transduce.model.feed_forward import MixtureOfExperts

Initialisation = Literal["fused-glorot", "glorot", "normal"]

NORMAL_DEVIATION = 0.02  # of weights with `normal`


@torch.no_grad()
def initialise(
    model: nn.Module, initialisation: Initialisation, d_model: int, cross_attentions: Collection[nn.Module]
) -> None:
    """Draws Glorot-uniform matrices, embeddings N(0, 1/d_model) and zero biases, as the released code does.

    `fused-glorot` draws W^Q, W^K and W^V as one matrix, and in `cross_attentions` W^K and W^V, as the released code
    does. If heads · d_k = heads · d_v = d_model, the entries of these matrices are 1/√2 times as large as with
    `glorot`, or √(2/3) times in `cross_attentions`. With post-norm the decoder then learns to attend to the source in
    half the steps (docs/decisions/0015). `normal` draws every matrix and embedding N(0, 0.02²), as BERT did.

    The parameters of a compatibility function keep the values that its module initialised. Convolutions keep torch's
    initialisation, except with `normal`. The gates of experts are zero, so that every expert gets tokens.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, LearnedPositions | Embedding):
            nn.init.normal_(module.weight, std=d_model**-0.5)
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    if initialisation == "normal":
        excluded = {parameter for attention in attentions for parameter in attention.compatibility.parameters()}
        for parameter in model.parameters():
            if parameter.dim() > 1 and parameter not in excluded:
                nn.init.normal_(parameter, std=NORMAL_DEVIATION)
    else:
        for attention in attentions:
            _draw_projections(attention, initialisation, d_model, attention in cross_attentions)
    for module in model.modules():
        if isinstance(module, MixtureOfExperts):
            nn.init.zeros_(module.gate.weight)
            nn.init.zeros_(module.noise.weight)


def _draw_projections(
    attention: MultiHeadAttention, initialisation: Initialisation, d_model: int, is_cross: bool
) -> None:
    """Draws W^Q, W^K and W^V of every head."""
    keys = attention.spec.heads * attention.spec.d_k
    query, key, value = attention.query.weight, attention.key_value.weight[:keys], attention.key_value.weight[keys:]
    if initialisation == "glorot":
        matrices = [[query], [key], [value]]
    else:
        matrices = [[query], [key, value]] if is_cross else [[query, key, value]]
    for matrix in matrices:
        # Each projection has Glorot's bound for the concatenated matrix.
        bound = (6 / (d_model + sum(map(len, matrix)))) ** 0.5
        for projection in matrix:
            projection.uniform_(-bound, bound)
