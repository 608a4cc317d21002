"""The Transformer's first weights, of which the text says nothing."""

from collections.abc import Collection
from typing import Literal

import torch
from torch import Tensor, nn

from transduce.model.attention import MultiHeadAttention
from transduce.model.embedding import Embedding
from transduce.model.experts import MixtureOfExperts
from transduce.model.positions import LearnedPositions

Initialisation = Literal["fused-glorot", "glorot", "normal"]

NORMAL = 0.02  # the deviation of weights drawn `normal`


@torch.no_grad()
def initialise(
    model: nn.Module, initialisation: Initialisation, d_model: int, over_encoder: Collection[nn.Module]
) -> None:
    """Glorot-uniform matrices, embeddings N(0, 1/d_model) and zero biases, as the released code has it.

    `fused-glorot` draws as one matrix what the released code multiplies as one: W^Q, W^K and W^V, and in the
    attentions `over_encoder` W^K and W^V. At heads · d_k = d_model those three are smaller by 1/√2 than with `glorot`,
    and with the norm last the decoder finds the source in half the steps (docs/decisions/0015). `normal` draws every
    matrix and embedding N(0, 0.02²), as BERT did. What a compatibility has of its own begins as it says itself, and a
    convolution as torch has it, but for `normal`. What chooses experts begins with zeros, so that all are sent tokens.
    """
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    _draw_glorot(model, d_model)
    if initialisation == "normal":
        _draw_normal(model, attentions)
    else:
        for attention in attentions:
            _draw_projections(attention, initialisation, d_model, attention in over_encoder)
    for module in model.modules():
        if isinstance(module, MixtureOfExperts):
            nn.init.zeros_(module.gate.weight)
            nn.init.zeros_(module.noise.weight)


def _draw_glorot(model: nn.Module, d_model: int) -> None:
    """Matrices, tables and biases."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, LearnedPositions | Embedding):
            nn.init.normal_(module.weight, std=d_model**-0.5)


def _draw_normal(model: nn.Module, attentions: Collection[MultiHeadAttention]) -> None:
    """Every matrix and table but the compatibilities' own."""
    apart = {parameter for attention in attentions for parameter in attention.compatibility.parameters()}
    for parameter in model.parameters():
        if parameter.dim() > 1 and parameter not in apart:
            nn.init.normal_(parameter, std=NORMAL)


def _draw_projections(
    attention: MultiHeadAttention, initialisation: Initialisation, d_model: int, over_encoder: bool
) -> None:
    """W^Q, W^K and W^V of every head, those as one matrix that the released code multiplies as one."""
    keys = attention.spec.heads * attention.spec.d_k
    query, key, value = attention.query.weight, attention.key_value.weight[:keys], attention.key_value.weight[keys:]
    if initialisation == "glorot":
        matrices = [[query], [key], [value]]
    else:
        matrices = [[query], [key, value]] if over_encoder else [[query, key, value]]
    for matrix in matrices:
        _draw_as_one(matrix, d_model)


def _draw_as_one(parts: Collection[Tensor], d_model: int) -> None:
    """Each part with Glorot's bound for the matrix that they are together."""
    bound = (6 / (d_model + sum(map(len, parts)))) ** 0.5
    for part in parts:
        part.uniform_(-bound, bound)
