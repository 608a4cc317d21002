"""The Transformer's encoder, and its steps in a search, in int8 with what stands between two products in one pass.

A stepper for a CPU. Rows are what products are of; there is no padding: sentences stand one after another, and each
token written is put into a slot that is never moved. A hypothesis knows its own slots, and to choose hypotheses is to
choose rows of a small table.
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
from transduce.model.int8 import kernels as passes
from transduce.model.int8.kernels import Bytes, Floats, Slots, Wholes
from transduce.model.int8.quantise import Int8Linear, share_parameters
from transduce.model.transformer import TransformerModel

INITIAL_CAPACITY = 16  # the tokens a hypothesis that a cache begins with has room for; it grows


class QuantisedRows(NamedTuple):
    """What goes into a product: bytes, and the step of each row."""

    whole: Bytes
    steps: Floats

    @classmethod
    def room(cls, rows: int, width: int) -> "QuantisedRows":
        """For a pass to write into."""
        return cls(np.empty((rows, width), np.uint8), np.empty(rows, np.float32))


class Int8Product:
    """x Wᵀ + b with x and W in int8, of which the steps of rows and b are left to who reads it."""

    def __init__(self, *maps: nn.Linear) -> None:
        """Of several maps of the same states, side by side."""
        self.linear = Int8Linear(torch.cat([part.weight.detach() for part in maps]), None)
        biases = [torch.zeros(part.out_features) if part.bias is None else part.bias.detach() for part in maps]
        self.bias: Floats = torch.cat(biases).numpy()

    def __call__(self, states: QuantisedRows) -> tuple[Floats, Floats, Floats]:
        """The product alone, the steps of its rows, and the bias."""
        return self.linear.product(torch.from_numpy(states.whole)).numpy(), states.steps, self.bias

    def whole(self, states: QuantisedRows) -> Floats:
        """x Wᵀ + b itself."""
        product, steps, bias = self(states)
        passes.scaled(product, steps, bias)
        return product


class SublayerStack:
    """The sub-layers of an encoder or a decoder, each with the residual connection around it (sections 3.1 and 5.4)."""

    def __init__(self, wrappers: Iterable[nn.Module], last: nn.Module) -> None:
        norms: list[Any] = [wrapper.norm for wrapper in wrappers]
        self.first_norm, self.before = None, isinstance(last, nn.LayerNorm)
        if self.before:  # pre-norm: a sub-layer leaves what the next one's norm makes of the states
            self.first_norm = _values(norms.pop(0))
            norms.append(last)
        self.norms = [_values(norm) for norm in norms]

    def begin(self, states: Floats) -> QuantisedRows:
        """What the first sub-layer multiplies."""
        narrowed = QuantisedRows.room(*states.shape)
        if self.first_norm is None:
            passes.narrowed(states, *narrowed)
        else:
            passes.normalised(states, *self.first_norm, *narrowed)
        return narrowed

    def join(self, number: int, product: Int8Product, inner: QuantisedRows, states: Floats) -> QuantisedRows:
        """Adds the last product of sub-layer `number` to `states`, in their place; gives what the next multiplies."""
        narrowed = QuantisedRows.room(*states.shape)
        passes.joined(*product(inner), states, self.before, *self.norms[number], *narrowed)
        return narrowed


def _values(norm: nn.LayerNorm) -> tuple[Floats, Floats, np.float32]:
    """Gain, bias and ε."""
    return norm.weight.detach().numpy(), norm.bias.detach().numpy(), np.float32(norm.eps)


class Int8FeedForward:
    """max(0, x W1 + b1) W2 + b2 (equation 2)."""

    def __init__(self, network: nn.Module) -> None:
        assert isinstance(network, FeedForwardNetwork)
        self.inner, self.outer = Int8Product(network.inner), Int8Product(network.outer)

    def hidden(self, states: QuantisedRows) -> QuantisedRows:
        """The hidden layer."""
        hidden = QuantisedRows.room(len(states.steps), self.inner.linear.outputs)
        passes.rectified(*self.inner(states), *hidden)
        return hidden


class AttendedRows(NamedTuple):
    """What attention looks at: in each row, from feature `first` on, every head's keys and then every head's values.

    Owner o knows the rows `slots[o, : counts[o]]`.
    """

    rows: Floats
    first: int
    slots: Slots
    counts: Wholes


class Int8Attention:
    """Multi-head attention (section 3.2.2)."""

    def __init__(self, attention: nn.Module) -> None:
        assert isinstance(attention, MultiHeadAttention)
        assert isinstance(attention.compatibility, DotProduct)
        spec = attention.spec
        self.shape = spec.heads, spec.d_k, spec.d_v, np.float32(attention.compatibility.scale)
        self.queries, self.remembered = spec.heads * spec.d_k, spec.heads * (spec.d_k + spec.d_v)
        self.join = Int8Product(attention.join)

    def attend(self, queries: Floats, known: AttendedRows, owners: Wholes) -> QuantisedRows:
        """What each row gathers from what its owner knows; to be joined."""
        gathered = QuantisedRows.room(len(queries), self.join.linear.inputs)
        passes.attended(queries, known.rows, known.first, known.slots, owners, known.counts, *self.shape, *gathered)
        return gathered


class Int8SelfAttention(Int8Attention):
    """Those of a sentence to itself."""

    def __init__(self, attention: Any) -> None:
        super().__init__(attention)
        self.project = Int8Product(attention.query, attention.key_value)


class Int8CrossAttention(Int8Attention):
    """Those of a translation to its source."""

    def __init__(self, attention: Any) -> None:
        super().__init__(attention)
        self.project_query, self.project_key_value = Int8Product(attention.query), Int8Product(attention.key_value)


class SlotCache:
    """Keys and values of the tokens that were written, a slot each, layer by layer."""

    def __init__(self, widths: Iterable[int], slots: int) -> None:
        self.used = 0
        self.layers: list[Floats] = [np.empty((slots, width), np.float32) for width in widths]

    def extend(self, slots: Slots, length: int) -> slice:
        """Gives each row a slot for its token at `length`; where none is left, what no row knows is thrown out."""
        rows = len(slots)
        if self.used + rows > len(self.layers[0]):
            known, places = np.unique(slots[:, :length], return_inverse=True)
            slots[:, :length] = places.reshape(rows, length)
            self.used = len(known)
            self.layers = [_moved(layer, known, 2 * (self.used + rows)) for layer in self.layers]
        new = slice(self.used, self.used + rows)
        slots[:, length] = np.arange(new.start, new.stop)
        self.used = new.stop
        return new


def _moved(layer: Floats, known: Slots, capacity: int) -> Floats:
    """What is known, at the beginning of so many slots."""
    moved = np.empty((capacity, layer.shape[1]), np.float32)
    moved[: len(known)] = layer[known]
    return moved


class Int8State(NamedTuple):
    """Where a search stands; a step consumes it."""

    memory: tuple[AttendedRows, ...]
    cache: SlotCache
    sentences: Wholes  # of each row
    slots: Slots  # of each row, its tokens' in order, and room for more
    length: int = 0

    def pick(self, rows: Int[Tensor, " rows"]) -> "Int8State":
        """The state of the chosen rows."""
        chosen = rows.numpy()
        return self._replace(sentences=self.sentences[chosen], slots=self.slots[chosen])


class Int8Stepper:
    """A stepper with the weights of a model that has no other parts than these; `quantise` asks that."""

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
        self.encoding = SublayerStack(around, model.encoder_norm)
        around = [
            wrapper
            for layer in model.decoder
            for wrapper in (layer.around_mixer, layer.around_cross, layer.around_feed_forward)
        ]
        self.decoding = SublayerStack(around, model.decoder_norm)
        self.readout = Int8Linear(model.readout.weight.detach(), None)
        self.max_positions = model.max_positions

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> Int8State:
        """The state before the first token: one row a sentence; at most `max_length` tokens will be written."""
        assert self.max_positions is None or max_length <= self.max_positions, (
            "the caller bounds `max_length` by the model's positions"
        )
        passes.use_threads(torch.get_num_threads())
        states: Floats = self.source_embedding(source)[visible].numpy()
        counts: Wholes = visible.sum(1).numpy()
        owners = np.repeat(np.arange(len(counts)), counts)
        slots = ((counts.cumsum() - counts)[:, None] + np.arange(counts.max())).astype(np.int32)
        inner = self.encoding.begin(states)
        for number, (heads, network) in enumerate(self.encoder):
            projected = heads.project.whole(inner)
            gathered = heads.attend(projected, AttendedRows(projected, heads.queries, slots, counts), owners)
            inner = self.encoding.join(2 * number, heads.join, gathered, states)
            inner = self.encoding.join(2 * number + 1, network.outer, network.hidden(inner), states)
        return Int8State(
            memory=tuple(
                AttendedRows(cross.project_key_value.whole(inner), 0, slots, counts) for _, cross, _ in self.decoder
            ),
            cache=SlotCache((heads.remembered for heads, _, _ in self.decoder), INITIAL_CAPACITY * len(counts)),
            sentences=np.arange(len(counts)),
            slots=np.empty((len(counts), INITIAL_CAPACITY), np.int32),
        )

    def step(
        self, tokens: Int[Tensor, "rows new"], state: Int8State
    ) -> tuple[Float[Tensor, "rows new vocabulary"], Int8State]:
        """Log-probabilities of the token after each of `tokens`, and the state with them written."""
        results = []
        for token in tokens.split(1, 1):
            log_probabilities, state = self._step(token, state)
            results.append(log_probabilities.unsqueeze(1))
        return results[0] if len(results) == 1 else torch.cat(results, 1), state

    def _step(
        self, tokens: Int[Tensor, "rows 1"], state: Int8State
    ) -> tuple[Float[Tensor, "rows vocabulary"], Int8State]:
        """One token a row."""
        passes.use_threads(torch.get_num_threads())
        length, slots = state.length, state.slots
        if length == slots.shape[1]:
            slots = np.concatenate([slots, np.empty_like(slots)], axis=1)
        new = state.cache.extend(slots, length)
        rows, counts = np.arange(len(slots)), np.full(len(slots), length + 1)
        states: Floats = self.target_embedding(tokens, length).squeeze(1).numpy()
        inner = self.decoding.begin(states)
        for number, (heads, cross, network) in enumerate(self.decoder):
            projected, written = heads.project.whole(inner), state.cache.layers[number]
            written[new] = projected[:, heads.queries :]
            gathered = heads.attend(projected, AttendedRows(written, 0, slots, counts), rows)
            inner = self.decoding.join(3 * number, heads.join, gathered, states)
            gathered = cross.attend(cross.project_query.whole(inner), state.memory[number], state.sentences)
            inner = self.decoding.join(3 * number + 1, cross.join, gathered, states)
            inner = self.decoding.join(3 * number + 2, network.outer, network.hidden(inner), states)
        logits = self.readout.product(torch.from_numpy(inner.whole))
        passes.log_probabilities(logits.numpy(), inner.steps)
        return logits, state._replace(slots=slots, length=length + 1)
