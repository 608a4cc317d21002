"""Converts the weights of a Transformer to the layout that other engines share, as float32 arrays or in int8.

In this layout, all attention layers have the same number of heads and the same head width, and the score of a key is
q · k / √width. Models with different numbers of heads, with d_k ≠ d_v, or with an unscaled dot product or a bilinear
product are converted without changing their output: the weights of missing heads and dimensions are padded with zeros,
and scales and bilinear matrices are multiplied into W^Q.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.model.attention import Attention, MultiHeadAttention
from transduce.model.attention_scores import BilinearProduct, DotProduct
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model_directory.model import Model

Array = NDArray[np.float32]
Order = NDArray[np.int64] | slice
"""The indices that reorder the d_model dimensions of the hidden states."""

AS_THEY_ARE = slice(None)

TABLE_POSITIONS = 2048  # size of a position table, if an engine needs one and the model has no limit

# x86 processors without VNNI add two products of a weight and an unsigned byte in 16 bits. With weights up to 64, this
# sum does not overflow, because 2 · 255 · 64 is below 2¹⁵.
LARGEST_INT8 = 64


class TransformerWeights(NamedTuple):
    """All weights of a Transformer. The embeddings are not yet multiplied by √d_model.

    If `spec.first_input` is "zeros", the row of BOS in the target embedding is not used.
    """

    spec: Transformer
    heads: int
    width: int  # of a head
    tensors: dict[str, Array]  # by the names of the parameters in our model

    def bias_or_zeros(self, name: str) -> Array:
        """Returns the bias of a linear map, or zeros if it has none."""
        zeros = np.zeros(len(self.tensors[f"{name}.weight"]), np.float32)
        return self.tensors.get(f"{name}.bias", zeros)


def attentions_of(spec: Transformer) -> tuple[Attention, Attention]:
    """Returns the settings of self-attention and of cross-attention for a model that `check_products` accepts."""
    assert isinstance(spec.mixer, Attention)
    return spec.mixer, spec.cross


# The parameters whose last dimension is d_model, and those whose first dimension is.
_FEATURES_LAST = (".query.weight", ".key_value.weight", ".inner.weight", "_embedding.weight", "readout.weight")
_FEATURES_FIRST = (".output.weight", ".output.bias", ".outer.weight", ".outer.bias", "norm.weight", "norm.bias")


def transformer_weights(model: Model, order: Order = AS_THEY_ARE) -> TransformerWeights:
    """Returns the weights of a model that `check_products` accepts, with its d_model dimensions in the given order."""
    module, spec = model.module, model.config.model
    assert isinstance(module, TransformerModel)
    assert isinstance(spec, Transformer)
    attentions = attentions_of(spec)
    heads = max(attention.heads for attention in attentions)
    width = max(max(attention.d_k, attention.d_v) for attention in attentions)
    tensors = {name: _array(tensor) for name, tensor in module.named_parameters(remove_duplicate=False)}
    for name, attention in module.named_modules():
        if isinstance(attention, MultiHeadAttention):
            projections = _uniform_heads(attention, heads, width)
            tensors |= {f"{name}.{projection}": _array(tensor) for projection, tensor in projections.items()}
    for name, array in tensors.items():
        if name.endswith(_FEATURES_LAST):
            tensors[name] = np.ascontiguousarray(array[:, order])
        elif name.endswith(_FEATURES_FIRST):
            tensors[name] = array[order]
    return TransformerWeights(spec, heads, width, tensors)


def _uniform_heads(attention: MultiHeadAttention, heads: int, width: int) -> dict[str, Tensor]:
    """Returns the projections of an attention layer, padded with zeros to `heads` heads of `width` dimensions.

    W^Q and its bias are scaled so that q · k / √width gives the same scores as before.
    """
    spec, compatibility = attention.spec, attention.compatibility
    assert isinstance(compatibility, DotProduct)

    def padded(tensor: Tensor, narrow: int) -> Tensor:
        """Pads a tensor [spec.heads·narrow …] with zero rows to [heads·width …]."""
        split = tensor.detach().view(spec.heads, narrow, -1)
        whole = split.new_zeros(heads, width, split.shape[2])
        whole[: spec.heads, :narrow] = split
        return whole.reshape(heads * width, *tensor.shape[1:])

    def scaled(tensor: Tensor) -> Tensor:
        split = tensor.detach().double().view(spec.heads, spec.d_k, -1)
        if isinstance(compatibility, BilinearProduct):
            split = compatibility.weight.detach().double().transpose(1, 2) @ split
        return (compatibility.scale * width**0.5 * split).float().reshape(tensor.shape)

    projections: dict[str, Tensor] = {}
    for kind in ("weight", "bias") if spec.bias else ("weight",):
        key, value = getattr(attention.key_value, kind).split((spec.heads * spec.d_k, spec.heads * spec.d_v))
        projections[f"query.{kind}"] = padded(scaled(getattr(attention.query, kind)), spec.d_k)
        projections[f"key_value.{kind}"] = torch.cat([padded(key, spec.d_k), padded(value, spec.d_v)])
    output = torch.zeros(len(attention.output.weight), heads, width)
    output[:, : spec.heads, : spec.d_v] = attention.output.weight.detach().unflatten(1, (spec.heads, spec.d_v))
    return {**projections, "output.weight": output.flatten(1)}


def position_tables(model: Model) -> tuple[Array, Array]:
    """Returns the position vectors [positions d_model] of the source and of the target.

    There are `TABLE_POSITIONS` of them, or fewer if the model supports fewer positions.
    """
    assert isinstance(model.module, TransformerModel)
    count = min(model.module.max_positions or TABLE_POSITIONS, TABLE_POSITIONS)
    embeddings = model.module.source_embedding, model.module.target_embedding
    with torch.inference_mode():
        source, target = (_array(embedding.positions(0, count)) for embedding in embeddings)
    return source, target


def int8_rows(matrix: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantises a matrix [outputs inputs] to integers from −64 to 64 with one scale per output, and returns both.

    The product of the integers and the scales approximates the matrix. With integers in this range, every processor
    computes matrix products exactly.
    """
    scales = np.maximum(np.abs(matrix).max(1) / LARGEST_INT8, np.finfo(np.float32).tiny)
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def _array(tensor: Tensor) -> Array:
    """Returns a tensor as a contiguous float32 array, which may share memory with it."""
    array: Array = tensor.detach().float().contiguous().numpy()
    return array
