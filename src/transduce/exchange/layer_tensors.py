"""Layers of Transformers under the names of fairseq, which Hugging Face's Marian and Pegasus models share."""

import torch
from torch import Tensor

from transduce.exchange.imported_model import ForeignTensors
from transduce.model import FeedForward, Transformer

__all__ = ["take_layers"]

NORMS = {"mixer": "self_attn_layer_norm", "cross": "encoder_attn_layer_norm", "feed_forward": "final_layer_norm"}
MATRICES = ("q_proj", "k_proj", "v_proj", "out_proj")


def take_layers(tensors: ForeignTensors, model: Transformer, prefix: str) -> dict[str, Tensor]:
    """Returns the weights of all layers and of the norms after the last ones; `prefix` stands before every name."""
    weights: dict[str, Tensor] = {}
    for side, count in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number in range(count):
            weights |= _take_layer(tensors, model, f"{prefix}{side}.layers.{number}.", f"{side}.{number}.")
        if model.norm == "pre":
            weights |= _take_pair(tensors, f"{prefix}{side}.layer_norm", f"{side}_norm", model.d_model)
    return weights


def _take_layer(tensors: ForeignTensors, model: Transformer, foreign: str, ours: str) -> dict[str, Tensor]:
    """Returns the weights of one layer."""
    assert isinstance(model.feed_forward, FeedForward)
    width, d_ff = model.d_model, model.feed_forward.d_ff
    parts = ("mixer", "cross", "feed_forward") if ours.startswith("decoder") else ("mixer", "feed_forward")
    weights = _take_attention(tensors, f"{foreign}self_attn.", f"{ours}mixer.", width)
    if "cross" in parts:
        weights |= _take_attention(tensors, f"{foreign}encoder_attn.", f"{ours}cross.", width)
    weights |= _take_pair(tensors, f"{foreign}fc1", f"{ours}feed_forward.inner", d_ff, width)
    weights |= _take_pair(tensors, f"{foreign}fc2", f"{ours}feed_forward.outer", width, d_ff)
    for part in parts:
        weights |= _take_pair(tensors, foreign + NORMS[part], f"{ours}around_{part}.norm", width)
    return weights


def _take_pair(tensors: ForeignTensors, foreign: str, ours: str, *shape: int) -> dict[str, Tensor]:
    """Returns a matrix, or the gain of a norm, and its bias."""
    return {
        f"{ours}.weight": tensors.take(f"{foreign}.weight", *shape),
        f"{ours}.bias": tensors.take(f"{foreign}.bias", shape[0]),
    }


def _take_attention(tensors: ForeignTensors, foreign: str, ours: str, width: int) -> dict[str, Tensor]:
    """Returns the four projections of an attention; old models of fairseq have three of them in one matrix."""
    weights = {}
    for kind, shape in (("weight", (width, width)), ("bias", (width,))):
        if f"{foreign}in_proj_{kind}" in tensors:
            query, key, value = tensors.take(f"{foreign}in_proj_{kind}", 3 * width, *shape[1:]).chunk(3)
            output = tensors.take(f"{foreign}out_proj.{kind}", *shape)
        else:
            query, key, value, output = (tensors.take(f"{foreign}{name}.{kind}", *shape) for name in MATRICES)
        weights[f"{ours}query.{kind}"] = query.clone()
        weights[f"{ours}key_value.{kind}"] = torch.cat([key, value])
        weights[f"{ours}join.{kind}"] = output
    return weights
