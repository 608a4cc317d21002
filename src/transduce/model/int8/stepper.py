"""The Transformer's encoder and its decoding steps in int8, with one kernel between two products; for a CPU.

Computation is on rows without padding: the tokens of the source stand one sentence after another. A decoded token is
written to a slot of the cache that never moves, and each hypothesis has a row of slot numbers: selecting hypotheses
selects rows of that table.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transduce.model.attention import MultiHeadAttention
from transduce.model.attention_scores import DotProduct
from transduce.model.feed_forward import FeedForwardNetwork
from transduce.model.int8 import kernels
from transduce.model.int8.kernels import Bytes, Floats, Indices, Slots
from transduce.model.int8.quantise import Int8Linear, share_parameters
from transduce.model.transformer import TransformerModel

INITIAL_CAPACITY = 16  # tokens of a hypothesis for which a new cache has slots; the cache grows


class QuantisedRows(NamedTuple):
    """The input of a product: bytes [rows features], and the scale of each row."""

    values: Bytes
    scales: Floats

    @classmethod
    def allocate(cls, rows: int, width: int) -> "QuantisedRows":
        """Returns uninitialised rows for a kernel to write."""
        return cls(np.empty((rows, width), np.uint8), np.empty(rows, np.float32))


class Int8Product:
    """x Wᵀ with x and W in int8, for several linear maps of the same x side by side."""

    def __init__(self, *maps: nn.Linear) -> None:
        self.linear = Int8Linear(torch.cat([part.weight.detach() for part in maps]), None)
        biases = [torch.zeros(part.out_features) if part.bias is None else part.bias.detach() for part in maps]
        self.bias: Floats = torch.cat(biases).numpy()

    def __call__(self, inputs: QuantisedRows) -> tuple[Floats, Floats, Floats]:
        """Returns the product, the scales of its rows and the bias; a kernel applies scales and bias."""
        return self.linear.product(torch.from_numpy(inputs.values)).numpy(), inputs.scales, self.bias

    def scaled(self, inputs: QuantisedRows) -> Floats:
        """Returns x Wᵀ + b."""
        product, scales, bias = self(inputs)
        kernels.scale_rows(product, scales, bias)
        return product


class SublayerStack:
    """Residual connections and norms around the sub-layers of an encoder or a decoder (sections 3.1 and 5.4)."""

    def __init__(self, wrappers: Iterable[nn.Module], last: nn.Module) -> None:
        norms: list[Any] = [wrapper.norm for wrapper in wrappers]
        self.first_norm, self.pre_norm = None, isinstance(last, nn.LayerNorm)
        if self.pre_norm:  # the norm after a sub-layer is that of the next sub-layer
            self.first_norm = _norm_arguments(norms.pop(0))
            norms.append(last)
        self.norms = [_norm_arguments(norm) for norm in norms]

    def first_input(self, states: Floats) -> QuantisedRows:
        """Returns the input of the first sub-layer."""
        first = QuantisedRows.allocate(*states.shape)
        if self.first_norm is None:
            kernels.quantise_rows(states, *first)
        else:
            kernels.normalise_rows(states, *self.first_norm, *first)
        return first

    def add(self, number: int, product: Int8Product, inner: QuantisedRows, states: Floats) -> QuantisedRows:
        """Adds the output of sub-layer `number` to `states` in place; returns the input of the next sub-layer.

        The output is the last product of the sub-layer, `product` of `inner`.
        """
        following = QuantisedRows.allocate(*states.shape)
        kernels.add_and_normalise(*product(inner), states, self.pre_norm, *self.norms[number], *following)
        return following


def _norm_arguments(norm: nn.LayerNorm) -> tuple[Floats, Floats, np.float32]:
    """Returns gain, bias and ε."""
    return norm.weight.detach().numpy(), norm.bias.detach().numpy(), np.float32(norm.eps)


class Int8FeedForward:
    """max(0, x W1 + b1) W2 + b2 (equation 2)."""

    def __init__(self, network: nn.Module) -> None:
        assert isinstance(network, FeedForwardNetwork)
        self.inner, self.outer = Int8Product(network.inner), Int8Product(network.outer)

    def hidden(self, inputs: QuantisedRows) -> QuantisedRows:
        """Returns the hidden layer, the input of `outer`."""
        hidden = QuantisedRows.allocate(len(inputs.scales), self.inner.linear.outputs)
        kernels.rectify_rows(*self.inner(inputs), *hidden)
        return hidden


class AttendedRows(NamedTuple):
    """Keys and values: from feature `first` of a row on, the keys of all heads, then the values of all heads.

    Queries of group g attend to the rows `slots[g, :counts[g]]`.
    """

    rows: Floats
    first: int
    slots: Slots
    counts: Indices


class Int8Attention:
    """Multi-head attention (section 3.2.2) without its input projections."""

    def __init__(self, attention: nn.Module) -> None:
        assert isinstance(attention, MultiHeadAttention)
        assert isinstance(attention.compatibility, DotProduct)
        spec = attention.spec
        self.heads_and_scale = spec.heads, spec.d_k, spec.d_v, np.float32(attention.compatibility.scale)
        self.query_width, self.key_value_width = spec.heads * spec.d_k, spec.heads * (spec.d_k + spec.d_v)
        self.output_projection = Int8Product(attention.join)

    def attend(self, queries: Floats, memory: AttendedRows, groups: Indices) -> QuantisedRows:
        """Returns the weighted sums of values of all heads, the input of the output projection.

        `groups` has the group of each query.
        """
        attended = QuantisedRows.allocate(len(queries), self.output_projection.linear.inputs)
        kernels.attend(
            queries, memory.rows, memory.first, memory.slots, groups, memory.counts, *self.heads_and_scale, *attended
        )
        return attended


class Int8SelfAttention(Int8Attention):
    """Attention of a sentence to itself; one product projects queries, keys and values."""

    def __init__(self, attention: Any) -> None:
        super().__init__(attention)
        self.project = Int8Product(attention.query, attention.key_value)


class Int8CrossAttention(Int8Attention):
    """Attention of the decoder over the encoder's output."""

    def __init__(self, attention: Any) -> None:
        super().__init__(attention)
        self.project_query, self.project_key_value = Int8Product(attention.query), Int8Product(attention.key_value)


class SlotCache:
    """Keys and values of the decoded tokens of all hypotheses: one slot a token, one array a layer."""

    def __init__(self, widths: Iterable[int], slots: int) -> None:
        self.used = 0
        self.layers: list[Floats] = [np.empty((slots, width), np.float32) for width in widths]

    def extend(self, slots: Slots, length: int) -> slice:
        """Assigns a new slot to each row for its token at `length`, and returns the new slots.

        A full cache drops the slots that no row uses and renumbers the others, in `slots` too.
        """
        rows = len(slots)
        if self.used + rows > len(self.layers[0]):
            used_slots, places = np.unique(slots[:, :length], return_inverse=True)
            slots[:, :length] = places.reshape(rows, length)
            self.used = len(used_slots)
            self.layers = [_copy_slots(layer, used_slots, 2 * (self.used + rows)) for layer in self.layers]
        new = slice(self.used, self.used + rows)
        slots[:, length] = np.arange(new.start, new.stop)
        self.used = new.stop
        return new


def _copy_slots(layer: Floats, slots: Slots, capacity: int) -> Floats:
    """Returns an array of `capacity` slots that begins with the given slots of `layer`."""
    copied = np.empty((capacity, layer.shape[1]), np.float32)
    copied[: len(slots)] = layer[slots]
    return copied


class Int8State(NamedTuple):
    """State of a search; a step consumes it, because cache and slots are written in place."""

    memory: tuple[AttendedRows, ...]
    cache: SlotCache
    sentences: Indices  # of each row
    slots: Slots  # of the tokens of each row, in order; the first `length` columns are used
    length: int = 0

    def pick(self, rows: Int[Tensor, " rows"]) -> "Int8State":
        """Returns the state of the chosen rows."""
        chosen = rows.numpy()
        return self._replace(sentences=self.sentences[chosen], slots=self.slots[chosen])


class Int8Stepper:
    """A stepper with the weights of a model, all of whose parts have kernels (`quantise` checks that)."""

    def __init__(self, model: TransformerModel) -> None:
        self.source_embedding = share_parameters(model.source_embedding)
        self.target_embedding = share_parameters(model.target_embedding)
        self.encoder = [
            (Int8SelfAttention(layer.mixer), Int8FeedForward(layer.feed_forward)) for layer in model.encoder
        ]
        self.decoder = [
            (Int8SelfAttention(layer.mixer), Int8CrossAttention(layer.cross), Int8FeedForward(layer.feed_forward))
            for layer in model.decoder
        ]
        around = [wrapper for layer in model.encoder for wrapper in (layer.around_mixer, layer.around_feed_forward)]
        self.encoder_sublayers = SublayerStack(around, model.encoder_norm)
        around = [
            wrapper
            for layer in model.decoder
            for wrapper in (layer.around_mixer, layer.around_cross, layer.around_feed_forward)
        ]
        self.decoder_sublayers = SublayerStack(around, model.decoder_norm)
        self.readout = Int8Linear(model.readout.weight.detach(), None)
        bias = model.readout.bias
        self.readout_bias: Floats | None = None if bias is None else bias.detach().numpy()
        self.max_positions = model.max_positions

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> Int8State:
        """Returns the state before the first token: one row a sentence, for at most `max_length` tokens."""
        assert self.max_positions is None or max_length <= self.max_positions, (
            "the caller bounds `max_length` by the model's positions"
        )
        kernels.use_threads(torch.get_num_threads())
        states: Floats = self.source_embedding(source)[visible].numpy()
        counts: Indices = visible.sum(1).numpy()
        groups = np.repeat(np.arange(len(counts)), counts)
        slots = ((counts.cumsum() - counts)[:, None] + np.arange(counts.max())).astype(np.int32)
        stack = self.encoder_sublayers
        inputs = stack.first_input(states)
        for number, (mixer, network) in enumerate(self.encoder):
            projected = mixer.project.scaled(inputs)
            attended = mixer.attend(projected, AttendedRows(projected, mixer.query_width, slots, counts), groups)
            inputs = stack.add(2 * number, mixer.output_projection, attended, states)
            inputs = stack.add(2 * number + 1, network.outer, network.hidden(inputs), states)
        return Int8State(
            memory=tuple(
                AttendedRows(cross.project_key_value.scaled(inputs), 0, slots, counts) for _, cross, _ in self.decoder
            ),
            cache=SlotCache((mixer.key_value_width for mixer, _, _ in self.decoder), INITIAL_CAPACITY * len(counts)),
            sentences=np.arange(len(counts)),
            slots=np.empty((len(counts), INITIAL_CAPACITY), np.int32),
        )

    def step(
        self, tokens: Int[Tensor, "rows new"], state: Int8State
    ) -> tuple[Float[Tensor, "rows new vocabulary"], Int8State]:
        """Returns log-probabilities of the token after each of `tokens`, and the state with `tokens` appended."""
        results = []
        for token in tokens.split(1, 1):
            log_probabilities, state = self._step(token, state)
            results.append(log_probabilities.unsqueeze(1))
        return results[0] if len(results) == 1 else torch.cat(results, 1), state

    def _step(
        self, tokens: Int[Tensor, "rows 1"], state: Int8State
    ) -> tuple[Float[Tensor, "rows vocabulary"], Int8State]:
        """Steps by one token a row."""
        kernels.use_threads(torch.get_num_threads())
        length, slots = state.length, state.slots
        if length == slots.shape[1]:
            slots = np.concatenate([slots, np.empty_like(slots)], axis=1)
        new = state.cache.extend(slots, length)
        rows, counts = np.arange(len(slots)), np.full(len(slots), length + 1)
        states: Floats = self.target_embedding(tokens, length).squeeze(1).numpy()
        stack = self.decoder_sublayers
        inputs = stack.first_input(states)
        for number, (mixer, cross, network) in enumerate(self.decoder):
            projected, key_values = mixer.project.scaled(inputs), state.cache.layers[number]
            key_values[new] = projected[:, mixer.query_width :]
            attended = mixer.attend(projected, AttendedRows(key_values, 0, slots, counts), rows)
            inputs = stack.add(3 * number, mixer.output_projection, attended, states)
            attended = cross.attend(cross.project_query.scaled(inputs), state.memory[number], state.sentences)
            inputs = stack.add(3 * number + 1, cross.output_projection, attended, states)
            inputs = stack.add(3 * number + 2, network.outer, network.hidden(inputs), states)
        logits = self.readout.product(torch.from_numpy(inputs.values))
        scales = inputs.scales
        if self.readout_bias is not None:
            kernels.scale_rows(logits.numpy(), scales, self.readout_bias)
            scales = np.ones_like(scales)
        kernels.log_softmax_rows(logits.numpy(), scales)
        return logits, state._replace(slots=slots, length=length + 1)
