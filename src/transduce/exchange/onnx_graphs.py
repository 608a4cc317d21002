"""The encoder and the decoder of a Transformer as ONNX graphs.

The decoder is one graph for the first step and all later steps: keys and values of the source are computed for the
positions of the encoder's output that the cache lacks, which are all or none. Names and shapes are those that
`optimum` and transformers.js expect.
"""

from typing import cast

import transduce
from transduce.exchange.onnx_operators import GraphBuilder
from transduce.exchange.onnx_parts import TransformerGraphWriter
from transduce.exchange.onnx_weights import StoredWeights
from transduce.model import TransformerModel
from transduce.model.attention import MultiHeadAttention
from transduce.model.layers import DecoderLayer, EncoderLayer

__all__ = ["decoder_graph", "encoder_graph"]

PRODUCER = f"transduce {transduce.__version__}"
LAST = 2**63 - 1  # of a slice: to the end


def encoder_graph(module: TransformerModel, weights: StoredWeights) -> bytes:
    """Returns the encoder: from `input_ids` and `attention_mask` to `last_hidden_state`."""
    writer = TransformerGraphWriter(GraphBuilder("encoder"), weights, module)
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


def decoder_graph(module: TransformerModel, weights: StoredWeights) -> bytes:
    """Returns the decoder: from new tokens, the encoder's output and the cache to `logits` and the longer cache."""
    writer = TransformerGraphWriter(GraphBuilder("decoder"), weights, module)
    graph = writer.graph
    tokens = graph.input("input_ids", "int64", ["batch_size", "decoder_sequence_length"])
    mask = graph.input("encoder_attention_mask", "int64", ["batch_size", "encoder_sequence_length"])
    encoded = graph.input(
        "encoder_hidden_states", "float32", ["batch_size", "encoder_sequence_length", module.spec.d_model]
    )
    layers = list(enumerate(cast(list[DecoderLayer], module.decoder)))
    caches = [writer.cache(number, layer) for number, layer in layers]
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
