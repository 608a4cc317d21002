"""The parts of a Transformer as nodes of an ONNX graph: embedding, attention, feed-forward network, norms, cache."""

import math
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from transduce.exchange.onnx_operators import GraphBuilder
from transduce.exchange.onnx_weights import StoredWeights
from transduce.model import TransformerModel
from transduce.model.attention import AttentionSpec, MultiHeadAttention
from transduce.model.attention_scores import AdditiveNetwork, BilinearProduct
from transduce.model.embedding import Embedding
from transduce.model.feed_forward import FeedForwardNetwork
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.local_attention import NeighbourAttention
from transduce.model.positions import LearnedPositions, SinusoidalPositions
from transduce.model.residual import PostNorm, PreNorm

__all__ = ["KeyValueNames", "TransformerGraphWriter"]

LOWEST = float(np.finfo(np.float32).min) / 2  # added to scores of masked keys; two of them are still finite


class KeyValueNames(NamedTuple):
    """Names of the keys and values of one attention, each [batch heads length width]."""

    keys: str
    values: str


class TransformerGraphWriter:
    """Writes the parts of a Transformer into a graph; methods take and return names of tensors."""

    def __init__(self, graph: GraphBuilder, weights: StoredWeights, module: TransformerModel) -> None:
        self.graph, self.weights, self.module = graph, weights, module
        self._names = {id(parameter): name for name, parameter in module.named_parameters()}

    def embedded(self, embedding: Embedding, tokens: str, positions: str) -> str:
        """Returns embedding · √d_model + position."""
        graph = self.graph
        vectors = self.weights.rows(graph, self._name(embedding.weight), embedding.weight, tokens)
        if embedding.blank is not None:
            is_blank = graph.unsqueeze(graph.apply("Equal", tokens, graph.constant(embedding.blank)), -1)
            vectors = graph.apply("Where", is_blank, graph.constant(0, "float32"), vectors)
        scaled = graph.apply("Mul", vectors, graph.constant(embedding.scale, "float32"))
        return graph.apply("Add", scaled, self._position_vectors(embedding.positions, positions))

    def _position_vectors(self, module: nn.Module, positions: str) -> str:
        """Returns the vectors of positions [length d_model]."""
        graph = self.graph
        if isinstance(module, LearnedPositions):
            table = self.weights.dense(graph, self._name(module.weight), module.weight)
            # With an axis more than needed: onnxruntime 1.32 turns the Gather of a Range into a Slice of wrong shape.
            return graph.apply("Gather", table, graph.unsqueeze(positions, 0))
        assert isinstance(module, SinusoidalPositions)
        rates, phases = _waves(module)
        # In float64, as `sinusoids` computes them: in float32 the angle of position 4,000 is off by 1e-4.
        angles = graph.apply(
            "Mul", graph.unsqueeze(graph.cast(positions, "float64"), 1), graph.constant(rates, "float64")
        )
        return graph.cast(graph.apply("Sin", graph.apply("Add", angles, graph.constant(phases, "float64"))), "float32")

    def source_bias(self, mask: str) -> str:
        """Returns what hides the padding of the source from every head and query, added to scores."""
        return self._bias(self.graph.unsqueeze(self.graph.cast(mask, "bool"), 1, 2))

    def causal_bias(self, queries: str, keys: str) -> str:
        """Returns what hides later positions, added to scores."""
        graph = self.graph
        return self._bias(graph.apply("LessOrEqual", graph.unsqueeze(keys, 0), graph.unsqueeze(queries, 1)))

    def band(self, attention: MultiHeadAttention, queries: str, keys: str) -> str | None:
        """Returns what hides all but neighbours, added to scores; None where attention is not restricted to them."""
        if not isinstance(attention, NeighbourAttention):
            return None
        graph = self.graph
        distance = graph.apply("Sub", graph.unsqueeze(queries, 1), graph.unsqueeze(keys, 0))
        reach = graph.constant(attention.spec.neighbours)
        return self._bias(graph.apply("LessOrEqual", graph.apply("Abs", distance), reach))

    def _bias(self, visible: str) -> str:
        """Returns 0 where a key is visible, else `LOWEST`."""
        return self.graph.apply(
            "Where", visible, self.graph.constant(0, "float32"), self.graph.constant(LOWEST, "float32")
        )

    def attention(self, attention: MultiHeadAttention, states: str, memory: KeyValueNames, bias: str) -> str:
        """Returns Concat(head_1 … head_h) W^O of `states`."""
        graph, spec = self.graph, attention.spec
        query = self._heads(self.linear(attention.query, states), spec.heads, spec.d_k)
        scores = self._scores(attention.compatibility, query, memory.keys)
        shares = graph.apply("Softmax", graph.apply("Add", scores, bias), axis=-1)
        attended = graph.apply("Transpose", graph.apply("MatMul", shares, memory.values), perm=[0, 2, 1, 3])
        return self.linear(
            attention.join, graph.apply("Reshape", attended, graph.constant([0, 0, spec.heads * spec.d_v]))
        )

    def _scores(self, compatibility: nn.Module, query: str, keys: str) -> str:
        """Returns the compatibility of each query with each key, for all heads."""
        graph = self.graph
        if isinstance(compatibility, AdditiveNetwork):
            hidden = graph.apply("Tanh", graph.apply("Add", graph.unsqueeze(query, 3), graph.unsqueeze(keys, 2)))
            weight = self._dense(compatibility.weight, compatibility.weight[:, None, None, :])
            return graph.apply("ReduceSum", graph.apply("Mul", hidden, weight), graph.constant([-1]), keepdims=0)
        if isinstance(compatibility, BilinearProduct):
            query = graph.apply("MatMul", query, self._dense(compatibility.weight))
        products = graph.apply("MatMul", query, graph.apply("Transpose", keys, perm=[0, 1, 3, 2]))
        return graph.apply("Mul", products, graph.constant(cast(float, compatibility.scale), "float32"))

    def keys_and_values(self, attention: MultiHeadAttention, states: str) -> KeyValueNames:
        """Returns the keys and values of `states`."""
        spec = attention.spec
        widths = [spec.heads * spec.d_k, spec.heads * spec.d_v]
        projected = self.linear(attention.key_value, states)
        keys, values = self.graph.apply_split("Split", 2, projected, self.graph.constant(widths), axis=-1)
        return KeyValueNames(self._heads(keys, spec.heads, spec.d_k), self._heads(values, spec.heads, spec.d_v))

    def _heads(self, states: str, heads: int, width: int) -> str:
        """Returns states [batch length heads·width] as [batch heads length width]."""
        split = self.graph.apply("Reshape", states, self.graph.constant([0, 0, heads, width]))
        return self.graph.apply("Transpose", split, perm=[0, 2, 1, 3])

    def cache(self, number: int, layer: DecoderLayer) -> tuple[KeyValueNames, KeyValueNames]:
        """Adds the inputs for the cache of a layer: keys and values of the target and of the source."""
        mixer = cast(MultiHeadAttention, layer.mixer)
        return self._past(number, "decoder", mixer), self._past(number, "encoder", layer.cross)

    def _past(self, number: int, side: str, attention: MultiHeadAttention) -> KeyValueNames:
        """Adds the two inputs for one attention.

        Other engines give the first step a cache without positions in the shape d_model / heads. Where that is not the
        shape of this model, the graph accepts any shape, and gives the cache its own.
        """
        spec, names = attention.spec, []
        attentions = cast(AttentionSpec, self.module.spec.mixer), self.module.spec.cross
        widths = {(other.heads, other.heads * width) for other in attentions for width in (other.d_k, other.d_v)}
        is_regular = widths == {(spec.heads, self.module.spec.d_model)}
        for part, width in (("key", spec.d_k), ("value", spec.d_v)):
            name, length = f"past_key_values.{number}.{side}.{part}", f"past_{side}_sequence_length"
            shape: list[int | str] = ["batch_size", spec.heads, length, width]
            if not is_regular:
                shape[1], shape[3] = f"{name}.heads", f"{name}.width"
            tensor = self.graph.input(name, "float32", shape)
            if not is_regular:
                tensor = self.graph.apply("Reshape", tensor, self.graph.constant([0, spec.heads, -1, width]))
            names.append(tensor)
        return KeyValueNames(*names)

    def extended(self, past: KeyValueNames, new: KeyValueNames) -> KeyValueNames:
        """Returns cached keys and values followed by new ones."""
        return KeyValueNames(*(self.graph.apply("Concat", *pair, axis=2) for pair in zip(past, new, strict=True)))

    def present(self, number: int, side: str, attention: MultiHeadAttention, memory: KeyValueNames) -> None:
        """Adds the outputs for the longer cache of one attention."""
        spec = attention.spec
        for part, width, tensor in (("key", spec.d_k, memory.keys), ("value", spec.d_v, memory.values)):
            shape: list[int | str] = ["batch_size", spec.heads, f"present_{side}_sequence_length", width]
            self.graph.output(f"present.{number}.{side}.{part}", tensor, shape)

    def feed_forward(self, layer: EncoderLayer | DecoderLayer, states: str) -> str:
        """Returns the output of a layer: applies its last sub-layer to `states`."""
        network = cast(FeedForwardNetwork, layer.feed_forward)
        kind = cast(str, self.module.spec.feed_forward.activation)
        hidden = self.linear(network.inner, self.sublayer_input(layer.around_feed_forward, states))
        outputs = self.linear(network.outer, self._activated(kind, hidden))
        return self.sublayer_output(layer.around_feed_forward, states, outputs)

    def _activated(self, kind: str, hidden: str) -> str:
        """Returns the activation of the hidden layer."""
        graph = self.graph
        if kind == "relu":
            return graph.apply("Relu", hidden)
        if kind == "swish":
            return graph.apply("Mul", hidden, graph.apply("Sigmoid", hidden))
        erf = graph.apply("Erf", graph.apply("Div", hidden, graph.constant(math.sqrt(2), "float32")))
        doubled = graph.apply("Mul", hidden, graph.apply("Add", erf, graph.constant(1, "float32")))
        return graph.apply("Mul", doubled, graph.constant(0.5, "float32"))

    def sublayer_input(self, around: PostNorm | PreNorm, states: str) -> str:
        """Returns the input of a sub-layer."""
        return self._norm(around.norm, states) if isinstance(around, PreNorm) else states

    def sublayer_output(self, around: PostNorm | PreNorm, states: str, output: str) -> str:
        """Returns the states after a sub-layer, whose output is `output`."""
        total = self.graph.apply("Add", states, output)
        return self._norm(around.norm, total) if isinstance(around, PostNorm) else total

    def last_norm(self, norm: nn.Module, states: str) -> str:
        """Returns the states after the norm behind the last layer, which only pre-norm has."""
        return self._norm(norm, states) if isinstance(norm, nn.LayerNorm) else states

    def _norm(self, norm: nn.LayerNorm, states: str) -> str:
        """Returns the layer normalisation."""
        scale, bias = self._dense(norm.weight), self._dense(norm.bias)
        return self.graph.apply("LayerNormalization", states, scale, bias, axis=-1, epsilon=norm.eps)

    def linear(self, linear: nn.Linear, states: str) -> str:
        """Returns states · Wᵀ + b."""
        product = self.weights.product(self.graph, self._name(linear.weight), linear.weight, states)
        return product if linear.bias is None else self.graph.apply("Add", product, self._dense(linear.bias))

    def logits(self, states: str) -> None:
        """Adds the output `logits`; a tied readout shares the table of the embedding."""
        readout = self.module.readout
        is_table = readout.weight is self.module.target_embedding.weight
        logits = self.weights.product(self.graph, self._name(readout.weight), readout.weight, states, is_table=is_table)
        if readout.bias is not None:
            logits = self.graph.apply("Add", logits, self._dense(readout.bias))
        shape: list[int | str] = ["batch_size", "decoder_sequence_length", len(readout.weight)]
        self.graph.output("logits", logits, shape, first=True)

    def _dense(self, weight: Tensor, values: Tensor | None = None) -> str:
        """Returns a bias, a norm or a small matrix; `values` is the weight in another shape."""
        return self.weights.dense(self.graph, self._name(weight), weight if values is None else values)

    def _name(self, weight: Tensor) -> str:
        """Returns the name of a weight, that of `model.safetensors`."""
        return self._names[id(weight)]


def _waves(positions: SinusoidalPositions) -> tuple[list[float], list[float]]:
    """Returns rates and phases of the features: the feature of token t, counted from 0, is sin(t · rate + phase)."""
    d_model = positions.d_model
    pairs = torch.arange(d_model // 2, dtype=torch.float64)
    spacing = max(d_model / 2 - 1, 1) if positions.layout == "halves" else d_model / 2
    rates = torch.exp(-math.log(10000.0) * pairs / spacing)
    phases = torch.stack([positions.first * rates, positions.first * rates + math.pi / 2])  # of sine and cosine
    if positions.layout == "interleaved":
        return rates.repeat_interleave(2).tolist(), phases.T.flatten().tolist()
    return rates.repeat(2).tolist(), phases.flatten().tolist()
