"""Converts the encoder and the decoder of a Transformer to ONNX graphs, with weights in float32, float16 or int8.

A single decoder graph serves both the first step and all later steps. It computes the keys and values of the source
only for the positions that are missing from the cache: all positions in the first step, and none later. The names and
shapes are those that `optimum` and transformers.js expect. In every precision, the activations that enter and leave the
graph and each part of it are float32, so that any runtime can run the graph.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

import transduce
from transduce.exchange.transformer_weights import int8_rows
from transduce.model.attention import AttentionSpec, MultiHeadAttention
from transduce.model.attention_scores import AdditiveNetwork, BilinearProduct
from transduce.model.embedding import Embedding, LearnedPositions, SinusoidalPositions
from transduce.model.feed_forward import FeedForwardNetwork
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.local_attention import NeighbourAttention
from transduce.model.residual import PostNorm, PreNorm
from transduce.model.transformer import TransformerModel

OPSET, IR_VERSION = 17, 8
"""17 is the first operator set that has LayerNormalization. onnxruntime supports it from version 1.12 on."""

PRODUCER = f"transduce {transduce.__version__}"
ELEMENT_TYPES = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT}
LAST = 2**63 - 1  # the end of a slice that extends to the end of the axis
LOWEST = float(np.finfo(np.float32).min) / 2  # added to the scores of masked keys; the sum of two is still finite
LARGEST_STATE = 127  # largest magnitude of an activation that is quantised to eight bits
ZERO = 128  # the zero point of activations in uint8


def encoder_graph(module: TransformerModel, precision: str) -> bytes:
    """Returns the serialised encoder, which computes `last_hidden_state` from `input_ids` and `attention_mask`."""
    writer = TransformerGraphWriter("encoder", module, precision)
    graph, shape = writer.graph, ["batch_size", "encoder_sequence_length"]
    tokens = graph.input("input_ids", "int64", shape)
    mask = graph.input("attention_mask", "int64", shape)
    zero, length = graph.constant([0]), graph.size(tokens, 1)
    positions = graph.range(zero, length)
    states = writer.embedded(module.source_embedding, tokens, positions)
    hidden = writer.source_bias(mask)
    for number, layer in enumerate(cast(list[EncoderLayer], module.encoder)):
        graph.scope = f"encoder.{number}"
        mixer = cast(MultiHeadAttention, layer.mixer)
        inputs = writer.sublayer_input(layer.around_mixer, states)
        bias = graph.apply("Add", hidden, band) if (band := writer.band(mixer, positions, positions)) else hidden
        mixed = writer.attention(mixer, inputs, writer.keys_and_values(mixer, inputs), bias)
        states = writer.feed_forward(layer, writer.sublayer_output(layer.around_mixer, states, mixed))
    states = writer.last_norm(module.encoder_norm, states)
    graph.output("last_hidden_state", states, [*shape, module.spec.d_model])
    return graph.serialised(PRODUCER)


def decoder_graph(module: TransformerModel, precision: str) -> bytes:
    """Returns the serialised decoder.

    It computes `logits` and the extended cache from the new tokens, the output of the encoder and the cache.
    """
    writer = TransformerGraphWriter("decoder", module, precision)
    graph = writer.graph
    tokens = graph.input("input_ids", "int64", ["batch_size", "decoder_sequence_length"])
    mask = graph.input("encoder_attention_mask", "int64", ["batch_size", "encoder_sequence_length"])
    encoded = graph.input(
        "encoder_hidden_states", "float32", ["batch_size", "encoder_sequence_length", module.spec.d_model]
    )
    layers = list(enumerate(cast(list[DecoderLayer], module.decoder)))
    caches = [
        (
            writer.past(number, "decoder", cast(MultiHeadAttention, layer.mixer)),
            writer.past(number, "encoder", layer.cross),
        )
        for number, layer in layers
    ]
    past, new = graph.size(caches[0][0].keys, 2), graph.size(tokens, 1)
    total = graph.apply("Add", past, new)
    positions, keys = graph.range(past, total), graph.range(graph.constant([0]), total)
    states = writer.embedded(module.target_embedding, tokens, positions)
    causal, hidden = writer.causal_bias(positions, keys), writer.source_bias(mask)
    missing = graph.apply(
        "Slice", encoded, graph.size(caches[0][1].keys, 2), graph.constant([LAST]), graph.constant([1])
    )
    for (number, layer), (of_target, of_source) in zip(layers, caches, strict=True):
        graph.scope = f"decoder.{number}"
        mixer = cast(MultiHeadAttention, layer.mixer)
        inputs = writer.sublayer_input(layer.around_mixer, states)
        extended = writer.extended(of_target, writer.keys_and_values(mixer, inputs))
        bias = graph.apply("Add", causal, band) if (band := writer.band(mixer, positions, keys)) else causal
        mixed = writer.attention(mixer, inputs, extended, bias)
        states = writer.sublayer_output(layer.around_mixer, states, mixed)
        memory = writer.extended(of_source, writer.keys_and_values(layer.cross, missing))
        attended = writer.attention(layer.cross, writer.sublayer_input(layer.around_cross, states), memory, hidden)
        states = writer.feed_forward(layer, writer.sublayer_output(layer.around_cross, states, attended))
        writer.present(number, "decoder", mixer, extended)
        writer.present(number, "encoder", layer.cross, memory)
    graph.scope = "decoder"
    writer.logits(writer.last_norm(module.decoder_norm, states))
    return graph.serialised(PRODUCER)


class KeyValueNames(NamedTuple):
    """The names of the keys and the values of an attention layer, each [batch heads length width]."""

    keys: str
    values: str


class TransformerGraphWriter:
    """Adds the parts of a Transformer to a graph. The methods take and return the names of tensors."""

    def __init__(self, side: str, module: TransformerModel, precision: str) -> None:
        self.graph, self.module, self.precision = GraphBuilder(side), module, precision
        self._names = {id(parameter): name for name, parameter in module.named_parameters()}
        self._quantised: dict[str, tuple[str, str]] = {}  # quantised activations, reused by later multiplications

    def embedded(self, embedding: Embedding, tokens: str, positions: str) -> str:
        """Computes the sum of the scaled embedding, embedding · √d_model, and the position vector of each token."""
        graph = self.graph
        vectors = self._rows(embedding.weight, tokens)
        if embedding.blank is not None:
            is_blank = graph.unsqueeze(graph.apply("Equal", tokens, graph.constant(embedding.blank)), -1)
            vectors = graph.apply("Where", is_blank, graph.constant(0, "float32"), vectors)
        scaled = graph.apply("Mul", vectors, graph.constant(embedding.scale, "float32"))
        module = embedding.positions
        if isinstance(module, LearnedPositions):
            table = self._dense(module.weight)
            # The extra axis is needed because onnxruntime 1.32 turns the Gather of a Range into a Slice of the wrong
            # shape.
            return graph.apply("Add", scaled, graph.apply("Gather", table, graph.unsqueeze(positions, 0)))
        assert isinstance(module, SinusoidalPositions)
        # A feature at position t, counted from 0, is sin(t · rate + phase). It is computed in float64, as in
        # `sinusoids`, because in float32 the angle at position 4,000 would be off by 1e-4.
        half = module.d_model // 2
        spacing = max(half - 1, 1) if module.layout == "halves" else half
        rates = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float64) / spacing)
        phases = torch.stack([module.first * rates, module.first * rates + math.pi / 2])  # of sine and cosine
        if module.layout == "interleaved":
            rates, phases = rates.repeat_interleave(2), phases.T
        else:
            rates = rates.repeat(2)
        numbers = graph.unsqueeze(graph.cast(positions, "float64"), 1)
        angles = graph.apply("Mul", numbers, graph.constant(rates.tolist(), "float64"))
        angles = graph.apply("Add", angles, graph.constant(phases.flatten().tolist(), "float64"))
        return graph.apply("Add", scaled, graph.cast(graph.apply("Sin", angles), "float32"))

    def source_bias(self, mask: str) -> str:
        """Returns the bias of the attention scores that masks the padding of the source for all heads and queries."""
        return self._bias(self.graph.unsqueeze(self.graph.cast(mask, "bool"), 1, 2))

    def causal_bias(self, queries: str, keys: str) -> str:
        """Returns the bias of the attention scores that masks later positions."""
        graph = self.graph
        return self._bias(graph.apply("LessOrEqual", graph.unsqueeze(keys, 0), graph.unsqueeze(queries, 1)))

    def band(self, attention: MultiHeadAttention, queries: str, keys: str) -> str | None:
        """Returns the bias of the attention scores that masks all positions except the neighbours.

        Returns None if the attention is not limited to neighbours.
        """
        if not isinstance(attention, NeighbourAttention):
            return None
        graph = self.graph
        distance = graph.apply("Sub", graph.unsqueeze(queries, 1), graph.unsqueeze(keys, 0))
        reach = graph.constant(attention.spec.neighbours)
        return self._bias(graph.apply("LessOrEqual", graph.apply("Abs", distance), reach))

    def _bias(self, visible: str) -> str:
        """Converts a mask to a bias, which is 0 where a key is visible and `LOWEST` elsewhere."""
        return self.graph.apply(
            "Where", visible, self.graph.constant(0, "float32"), self.graph.constant(LOWEST, "float32")
        )

    def attention(self, attention: MultiHeadAttention, states: str, memory: KeyValueNames, bias: str) -> str:
        """Computes multi-head attention, Concat(head_1 … head_h) W^O, with queries projected from `states`.

        `memory` contains the keys and values, and `bias` is added to the scores.
        """
        graph, spec = self.graph, attention.spec
        query = self._heads(self.linear(attention.query, states), spec.heads, spec.d_k)
        compatibility = attention.compatibility
        if isinstance(compatibility, AdditiveNetwork):
            sums = graph.apply("Add", graph.unsqueeze(query, 3), graph.unsqueeze(memory.keys, 2))
            hidden = graph.apply("Tanh", sums)
            weighted = graph.apply(
                "Mul", hidden, self._dense(compatibility.weight, compatibility.weight[:, None, None, :])
            )
            scores = graph.apply("ReduceSum", weighted, graph.constant([-1]), keepdims=0)
        else:
            if isinstance(compatibility, BilinearProduct):
                query = graph.apply("MatMul", query, self._dense(compatibility.weight))
            products = graph.apply("MatMul", query, graph.apply("Transpose", memory.keys, perm=[0, 1, 3, 2]))
            scores = graph.apply("Mul", products, graph.constant(compatibility.scale, "float32"))
        shares = graph.apply("Softmax", graph.apply("Add", scores, bias), axis=-1)
        attended = graph.apply("Transpose", graph.apply("MatMul", shares, memory.values), perm=[0, 2, 1, 3])
        return self.linear(
            attention.output, graph.apply("Reshape", attended, graph.constant([0, 0, spec.heads * spec.d_v]))
        )

    def keys_and_values(self, attention: MultiHeadAttention, states: str) -> KeyValueNames:
        """Projects the hidden states to keys and values, each [batch heads length width]."""
        spec = attention.spec
        widths = [spec.heads * spec.d_k, spec.heads * spec.d_v]
        projected = self.linear(attention.key_value, states)
        keys, values = self.graph.apply_split("Split", 2, projected, self.graph.constant(widths), axis=-1)
        return KeyValueNames(self._heads(keys, spec.heads, spec.d_k), self._heads(values, spec.heads, spec.d_v))

    def _heads(self, states: str, heads: int, width: int) -> str:
        """Splits states [batch length heads·width] into heads [batch heads length width]."""
        split = self.graph.apply("Reshape", states, self.graph.constant([0, 0, heads, width]))
        return self.graph.apply("Transpose", split, perm=[0, 2, 1, 3])

    def past(self, number: int, side: str, attention: MultiHeadAttention) -> KeyValueNames:
        """Adds the two inputs of the graph for the cached keys and values of an attention layer.

        In the first step, other engines pass an empty cache whose width is d_model / heads. If the cache of this model
        has a different shape, the graph accepts any shape and reshapes the cache.
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
        """Appends new keys and values to the cached ones."""
        return KeyValueNames(*(self.graph.apply("Concat", *pair, axis=2) for pair in zip(past, new, strict=True)))

    def present(self, number: int, side: str, attention: MultiHeadAttention, memory: KeyValueNames) -> None:
        """Adds the two graph outputs that hold the extended cache of an attention layer."""
        spec = attention.spec
        for part, width, tensor in (("key", spec.d_k, memory.keys), ("value", spec.d_v, memory.values)):
            shape: list[int | str] = ["batch_size", spec.heads, f"present_{side}_sequence_length", width]
            self.graph.output(f"present.{number}.{side}.{part}", tensor, shape)

    def feed_forward(self, layer: EncoderLayer | DecoderLayer, states: str) -> str:
        """Applies the feed-forward sub-layer of a layer to `states`, and returns the output of the layer."""
        graph, network = self.graph, cast(FeedForwardNetwork, layer.feed_forward)
        kind = cast(str, self.module.spec.feed_forward.activation)
        hidden = self.linear(network.inner, self.sublayer_input(layer.around_feed_forward, states))
        if kind == "relu":
            hidden = graph.apply("Relu", hidden)
        elif kind == "swish":
            hidden = graph.apply("Mul", hidden, graph.apply("Sigmoid", hidden))
        else:  # gelu
            erf = graph.apply("Erf", graph.apply("Div", hidden, graph.constant(math.sqrt(2), "float32")))
            doubled = graph.apply("Mul", hidden, graph.apply("Add", erf, graph.constant(1, "float32")))
            hidden = graph.apply("Mul", doubled, graph.constant(0.5, "float32"))
        outputs = self.linear(network.outer, hidden)
        return self.sublayer_output(layer.around_feed_forward, states, outputs)

    def sublayer_input(self, around: PostNorm | PreNorm, states: str) -> str:
        """Returns the input of a sub-layer: `states`, which are normalised first in a pre-norm model."""
        return self._norm(around.norm, states) if isinstance(around, PreNorm) else states

    def sublayer_output(self, around: PostNorm | PreNorm, states: str, output: str) -> str:
        """Adds the residual `states` to the `output` of a sub-layer, and normalises the sum in a post-norm model."""
        total = self.graph.apply("Add", states, output)
        return self._norm(around.norm, total) if isinstance(around, PostNorm) else total

    def last_norm(self, norm: nn.Module, states: str) -> str:
        """Applies the layer normalisation after the last layer, which only pre-norm models have."""
        return self._norm(norm, states) if isinstance(norm, nn.LayerNorm) else states

    def _norm(self, norm: nn.LayerNorm, states: str) -> str:
        scale, bias = self._dense(norm.weight), self._dense(norm.bias)
        return self.graph.apply("LayerNormalization", states, scale, bias, axis=-1, epsilon=norm.eps)

    def linear(self, linear: nn.Linear, states: str) -> str:
        """Computes `states` · Wᵀ + b, or without b if the linear map has no bias."""
        product = self._product(linear.weight, states)
        return product if linear.bias is None else self.graph.apply("Add", product, self._dense(linear.bias))

    def logits(self, states: str) -> None:
        """Adds the output `logits` of the graph. A tied readout shares the matrix of the target embedding."""
        readout = self.module.readout
        is_table = readout.weight is self.module.target_embedding.weight
        logits = self._product(readout.weight, states, is_table=is_table)
        if readout.bias is not None:
            logits = self.graph.apply("Add", logits, self._dense(readout.bias))
        shape: list[int | str] = ["batch_size", "decoder_sequence_length", len(readout.weight)]
        self.graph.output("logits", logits, shape, first=True)

    def _rows(self, table: Tensor, tokens: str) -> str:
        """Looks up the row of each token in a table [rows features]."""
        graph = self.graph
        if self.precision != "int8":
            return self._as_float32(graph.apply("Gather", self._stored(table, table), tokens))
        numbers, scales = self._int8_matrix(table, transposed=False)
        rows = graph.cast(graph.apply("Gather", numbers, tokens), "float32")
        return graph.apply("Mul", rows, graph.unsqueeze(graph.apply("Gather", scales, tokens), -1))

    def _product(self, matrix: Tensor, states: str, *, is_table: bool = False) -> str:
        """Computes `states` · matrixᵀ for a matrix [outputs inputs].

        If `is_table` is true, the matrix is stored in the layout that `_rows` uses, so that both can share it.
        """
        graph = self.graph
        if self.precision != "int8":
            factor = self._as_float32(self._stored(matrix, matrix if is_table else matrix.T))
            return graph.apply("MatMul", states, graph.apply("Transpose", factor, perm=[1, 0]) if is_table else factor)
        numbers, scales = self._int8_matrix(matrix, transposed=not is_table)
        factor = graph.apply("Transpose", numbers, perm=[1, 0]) if is_table else numbers
        # The activations are quantised to uint8. Each token has its own scale, which is computed from its largest
        # magnitude, so that a translation does not depend on the other sentences in its batch. DynamicQuantizeLinear
        # would compute a single scale for the whole batch.
        if states not in self._quantised:
            largest = graph.apply("ReduceMax", graph.apply("Abs", states), axes=[-1], keepdims=1)
            # Before version 1.31, onnxruntime does not reduce the last axis if there are no tokens.
            largest = graph.apply("Reshape", largest, graph.constant([0, 0, 1]))
            tiny = graph.constant(np.finfo(np.float32).tiny * LARGEST_STATE, "float32")
            scale = graph.apply("Div", graph.apply("Max", largest, tiny), graph.constant(LARGEST_STATE, "float32"))
            rounded = graph.apply("Round", graph.apply("Div", states, scale))
            shifted = graph.apply("Add", rounded, graph.constant(ZERO, "float32"))
            self._quantised[states] = graph.cast(shifted, "uint8"), scale
        quantised, of_states = self._quantised[states]
        zero = graph.constant(ZERO, "uint8")
        sums = graph.cast(graph.apply("MatMulInteger", quantised, factor, zero), "float32")
        return graph.apply("Mul", graph.apply("Mul", sums, of_states), scales)

    def _dense(self, weight: Tensor, values: Tensor | None = None) -> str:
        """Adds a weight that is not quantised to int8: a bias, a scale or a small matrix.

        `values` is the weight in the shape to be stored, if this differs from its own.
        """
        return self._as_float32(self._stored(weight, weight if values is None else values))

    def _stored(self, weight: Tensor, values: Tensor) -> str:
        """Adds a weight in float16 or float32 under the name that it has in `model.safetensors`."""
        dtype = "float16" if self.precision == "float16" else "float32"
        return self.graph.weight(self._names[id(weight)], values.detach().float().numpy().astype(dtype))

    def _as_float32(self, tensor: str) -> str:
        """Casts a stored weight to float32. A runtime does this only once, when it loads the graph."""
        return self.graph.cast(tensor, "float32") if self.precision == "float16" else tensor

    def _int8_matrix(self, matrix: Tensor, *, transposed: bool) -> tuple[str, str]:
        """Adds a matrix [outputs inputs] as int8 integers with one scale per output, and returns the names of both."""
        numbers, scales = int8_rows(matrix.detach().float().numpy())
        name = self._names[id(matrix)]
        stored = self.graph.weight(name, numbers.T if transposed else numbers)
        return stored, self.graph.weight(f"{name}.scale", scales)


class GraphBuilder:
    """Collects the nodes, constants, inputs and outputs of a graph. Tensors are referred to by name."""

    def __init__(self, name: str) -> None:
        self.name, self.scope = name, name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._small_constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output, and returns the name of the output."""
        return self.apply_split(operator, 1, *inputs, **attributes)[0]

    def apply_split(self, operator: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds a node with `count` outputs, and returns their names."""
        name = f"{self.scope}/{operator}_{len(self._nodes)}"
        outputs = [name] if count == 1 else [f"{name}:{number}" for number in range(count)]
        self._nodes.append(helper.make_node(operator, inputs, outputs, name, **attributes))
        return outputs

    def weight(self, name: str, values: NDArray[Any]) -> str:
        """Adds a weight, unless the graph already has one called `name`, and returns the name."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def constant(self, values: Any, dtype: str = "int64") -> str:
        """Returns the name of a small constant, which is added to the graph if no equal constant exists."""
        array = np.asarray(values, dtype)
        key = dtype, array.tobytes(), array.shape
        if key not in self._small_constants:
            self._small_constants[key] = self.weight(f"constant_{len(self._small_constants)}", array)
        return self._small_constants[key]

    def cast(self, tensor: str, dtype: str) -> str:
        """Casts a tensor to the element type that NumPy calls `dtype`."""
        return self.apply("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def size(self, tensor: str, axis: int) -> str:
        """Returns the size of one axis, as a vector with one element."""
        return self.apply("Shape", tensor, start=axis, end=axis + 1)

    def range(self, first: str, stop: str) -> str:
        """Returns a vector of the integers from `first` to `stop` − 1, which are both vectors with one element."""
        axis = self.constant([0])
        scalars = [self.apply("Squeeze", bound, axis) for bound in (first, stop)]
        return self.apply("Range", *scalars, self.constant(1))

    def unsqueeze(self, tensor: str, *axes: int) -> str:
        """Inserts axes of size 1 into a tensor."""
        return self.apply("Unsqueeze", tensor, self.constant(axes))

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> str:
        """Adds an input of the graph, and returns its name."""
        self._inputs.append(helper.make_tensor_value_info(name, ELEMENT_TYPES[dtype], shape))
        return name

    def output(self, name: str, tensor: str, shape: Sequence[int | str], *, first: bool = False) -> None:
        """Adds a float32 tensor as an output of the graph, before all other outputs if `first` is true."""
        self._nodes.append(helper.make_node("Identity", [tensor], [name], f"output/{name}"))
        described = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self._outputs.insert(0 if first else len(self._outputs), described)

    def serialised(self, producer: str) -> bytes:
        """Returns the graph as the content of an ONNX file; raises ValueError if it is too large for the format."""
        constants = list(self._constants.values())
        size = sum(len(constant.raw_data) for constant in constants)
        if size > 2**31 - 2**24:
            raise ValueError(
                f"the {self.name} has weights of {size / 1e9:.1f} GB, and an ONNX file holds less than 2 GB: export "
                "with `--precision float16` or `--precision int8`"
            )
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name=producer)
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())
