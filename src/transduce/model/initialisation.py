"""Initialisation of the Transformer's weights, which the paper does not describe."""

from collections.abc import Collection
from typing import Literal

import torch
from torch import nn

from transduce.model.attention import MultiHeadAttention
from transduce.model.embedding import Embedding, LearnedPositions
from transduce.model.feed_forward import MixtureOfExperts

Initialisation = Literal["fused-glorot", "glorot", "normal"]

NORMAL_DEVIATION = 0.02  # standard deviation of the weights with `normal`


@torch.no_grad()
def initialise(
    model: nn.Module, initialisation: Initialisation, d_model: int, cross_attentions: Collection[nn.Module]
) -> None:
    """Initialises the weights of a model in place.

    `glorot` draws each matrix from the Glorot-uniform distribution and embeddings from N(0, 1/d_model), and sets biases
    to zero, as the released code does. `fused-glorot` also follows the released code in that the matrices W^Q, W^K and
    W^V of an attention module are drawn as one matrix; for modules in `cross_attentions`, only W^K and W^V are. If
    heads · d_k = heads · d_v = d_model, the entries of these matrices are then 1/√2 times as large as with `glorot`, or
    √(2/3) times as large in `cross_attentions`. In a post-norm model, the decoder thereby learns to attend to the
    source in half as many steps (docs/decisions/0015). `normal` draws every matrix and embedding from N(0, 0.02²), as
    BERT did.

    The parameters of compatibility functions keep the values with which their modules were created, and so do
    convolutions, except with `normal`. The gates of a mixture of experts are set to zero, so that every expert receives
    tokens.
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
    """Draws the matrices W^Q, W^K and W^V of all heads of an attention module."""
    keys = attention.spec.heads * attention.spec.d_k
    query, key, value = attention.query.weight, attention.key_value.weight[:keys], attention.key_value.weight[keys:]
    if initialisation == "glorot":
        matrices = [[query], [key], [value]]
    else:
        matrices = [[query], [key, value]] if is_cross else [[query, key, value]]
    for matrix in matrices:
        # Each projection is drawn with Glorot's bound for the whole concatenated matrix.
        bound = (6 / (d_model + sum(map(len, matrix)))) ** 0.5
        for projection in matrix:
            projection.uniform_(-bound, bound)
