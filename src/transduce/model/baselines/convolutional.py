"""ConvS2S: gated convolutions, with attention in every layer of the decoder (Gehring et al. 2017)."""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from transduce.model.baselines.token_vectors import TokenVectors
from transduce.model.decoder_state import RecurrentState
from transduce.model.dropout import Dropout
from transduce.model.hypothesis_rows import HypothesisRows
from transduce.model.positions import Learned, LearnedPositions
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.translation_model import (
    BaseModelSpec,
    Layers,
    TranslationModel,
    Vocabulary,
    embeddings,
    typed_module_list,
)
from transduce.settings import Spec

HALF = math.sqrt(0.5)  # keeps the variance of a sum of two

Memory = tuple[Float[Tensor, "batch source d_model"], Float[Tensor, "batch source d_model"]]


class Block(Spec):
    """`layers` gated convolutions of one width and kernel."""

    layers: Layers
    width: int = Field(ge=1)
    kernel: int = Field(ge=1)


Blocks = tuple[Block, ...]


class Convolutional(BaseModelSpec):
    """Blocks of gated convolutions on each side, tokens and learned positions in `d_model` features."""

    kind: Literal["convolutional"] = "convolutional"
    encoder: Blocks = Field(min_length=1)
    decoder: Blocks = Field(min_length=1)
    longest: int = Field(default=1024, ge=1)
    readout: ReadoutSpec = Tied()

    def build(self, vocabulary: Vocabulary) -> "ConvolutionalModel":
        """The model with fresh weights, drawn from torch's generator."""
        return ConvolutionalModel(self, vocabulary)

    def products(self, length: int) -> tuple[int | float, int | float]:
        """As `FamilySpec.products`."""
        widths = [block.width for block in self.decoder for _ in range(block.layers)]
        attention = 2 * self.d_model * (sum(widths) + length * len(widths))
        return self._stack(self.encoder), self._stack(self.decoder) + attention

    def _stack(self, blocks: Blocks) -> int:
        """Multiplications of a token in one side's layers."""
        inputs, total = blocks[0].width, self.d_model * blocks[0].width
        for block in blocks:
            for _ in range(block.layers):
                total += 2 * block.width * block.kernel * inputs + (
                    inputs * block.width if inputs != block.width else 0
                )
                inputs = block.width
        return total + inputs * self.d_model


def normalised_linear(inputs: int, outputs: int, dropout: float) -> nn.Module:
    """A map with weight normalisation, drawn so that variance passes through it."""
    linear = nn.Linear(inputs, outputs)
    return _drawn(linear, math.sqrt((1 - dropout) / inputs))


class GatedConvolution(nn.Module):
    """A convolution to twice the width, one half of which gates the other (a gated linear unit)."""

    def __init__(self, inputs: int, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.inputs, self.kernel = inputs, kernel
        convolution = nn.Conv1d(inputs, 2 * width, kernel)
        self.convolution = _drawn(convolution, math.sqrt(4 * (1 - dropout) / (kernel * inputs)))
        self.dropout = Dropout(dropout)

    def forward(self, padded: Float[Tensor, "batch more inputs"]) -> Float[Tensor, "batch length width"]:
        """Of states with kernel − 1 places more than are wanted."""
        raised = self.convolution(self.dropout(padded).transpose(1, 2)).transpose(1, 2)
        return functional.glu(raised, dim=-1)


class AttentionStep(nn.Module):
    """What a decoder layer adds: attention with its own state and the token just read (section 3.3 of that paper)."""

    def __init__(self, width: int, d_model: int) -> None:
        super().__init__()
        self.query = normalised_linear(width, d_model, 0.0)
        self.join = normalised_linear(d_model, width, 0.0)

    def forward(
        self,
        states: Float[Tensor, "rows new width"],
        vectors: Float[Tensor, "rows new d_model"],
        memory: Memory,
        visible: Bool[Tensor, "batch source"],
        rows: HypothesisRows | None,
    ) -> Float[Tensor, "rows new width"]:
        """The states with what they attend to added."""
        query = (self.query(states) + vectors) * HALF
        spread = query if rows is None else rows.spread(query)
        scores = spread @ memory[0].transpose(1, 2)
        weights = scores.masked_fill(~visible.unsqueeze(1), torch.finfo(scores.dtype).min / 2).softmax(-1)
        # m inputs are averaged: m √(1/m) keeps the variance, were all weights equal.
        seen = visible.sum(1).clamp(min=1).to(scores.dtype).sqrt().view(-1, 1, 1)
        attended = (weights @ memory[1]) * seen
        return (states + self.join(attended if rows is None else rows.collect(attended))) * HALF


class Stack(nn.Module):
    """The layers of one side, each with a residual connection scaled by √½."""

    def __init__(self, blocks: Blocks, d_model: int, dropout: float) -> None:
        super().__init__()
        layers = [(block.width, block.kernel) for block in blocks for _ in range(block.layers)]
        self.depth = len(layers)
        before = [layers[0][0], *[width for width, _ in layers]]
        self.enter = normalised_linear(d_model, layers[0][0], dropout)
        self.layers = typed_module_list(
            GatedConvolution(inputs, width, kernel, dropout)
            for inputs, (width, kernel) in zip(before, layers, strict=False)
        )
        self.around = typed_module_list(
            normalised_linear(inputs, width, 0.0) if inputs != width else nn.Identity()
            for inputs, (width, _) in zip(before, layers, strict=False)
        )
        self.leave = normalised_linear(layers[-1][0], d_model, 0.0)


class ConvolutionalModel(TranslationModel):
    """Every position of a side at once; the decoder's kernels look back only."""

    def __init__(self, spec: Convolutional, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary, self.longest = spec, vocabulary, spec.longest
        source, target = embeddings(spec, vocabulary)
        self.source_embedding, self.target_embedding = TokenVectors(source, 0.1), TokenVectors(target, 0.1)
        self.source_positions, self.target_positions = self._positions(), self._positions()
        self.dropout = Dropout(spec.dropout)
        self.encoder = Stack(spec.encoder, spec.d_model, spec.dropout)
        self.decoder = Stack(spec.decoder, spec.d_model, spec.dropout)
        widths = [block.width for block in spec.decoder for _ in range(block.layers)]
        self.attention = typed_module_list(AttentionStep(width, spec.d_model) for width in widths)
        self.readout = spec.readout.build(target, spec.symbols.pad)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder's states after each token of `target_in`."""
        states, _ = self._write(target_in, 0, self._read(source, visible), visible, self._nothing(len(source)), None)
        return states

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> RecurrentState:
        """The state before the first token."""
        return RecurrentState.of((*self._read(source, visible), visible), self._nothing(len(source)))

    def step(
        self, tokens: Int[Tensor, "rows new"], state: RecurrentState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], RecurrentState]:
        """Log-probabilities of the token after each of `tokens`, and the state with them written."""
        keys, values, visible = state.memory
        states, carried = self._write(tokens, state.length, (keys, values), visible, state.carried, state.rows)
        return self.readout(states), state._replace(carried=carried, length=state.length + tokens.shape[1])

    def _read(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]) -> Memory:
        """Keys z and values (z + e) √½."""
        vectors = self.dropout(self.source_embedding(source) + self.source_positions(0, source.shape[1]))
        typed_module_list, present = self.encoder, visible.unsqueeze(2).to(vectors.dtype)
        states = typed_module_list.enter(vectors)
        for layer, around in zip(typed_module_list.layers, typed_module_list.around, strict=True):
            before = (layer.kernel - 1) // 2
            padded = functional.pad(states * present, (0, 0, before, layer.kernel - 1 - before))
            states = (around(states) + layer(padded)) * HALF
        keys = _gradient_scaled(typed_module_list.leave(states), 1 / (2 * self.decoder.depth))
        return keys, (keys + vectors) * HALF

    def _write(
        self,
        tokens: Int[Tensor, "rows new"],
        first: int,
        memory: Memory,
        visible: Bool[Tensor, "batch source"],
        carried: tuple[Float[Tensor, "rows _ _"], ...],
        rows: HypothesisRows | None,
    ) -> tuple[Float[Tensor, "rows new d_model"], tuple[Float[Tensor, "rows _ _"], ...]]:
        """The states after new tokens, and what each layer has to remember for those to come."""
        vectors = self.dropout(self.target_embedding(tokens) + self.target_positions(first, tokens.shape[1]))
        typed_module_list, after = self.decoder, []
        states = typed_module_list.enter(vectors)
        for layer, around, attention, past in zip(
            typed_module_list.layers, typed_module_list.around, self.attention, carried, strict=True
        ):
            padded = torch.cat([past.to(states.dtype), states], dim=1)
            after.append(padded[:, padded.shape[1] - (layer.kernel - 1) :])
            raised = attention(layer(padded), vectors, memory, visible, rows)
            states = (around(states) + raised) * HALF
        return self.dropout(typed_module_list.leave(states)), tuple(after)

    def _nothing(self, rows: int) -> tuple[Tensor, ...]:
        """What the layers of the decoder remember before the first token: zeros."""
        weight = self.target_embedding.weight
        return tuple(weight.new_zeros(rows, layer.kernel - 1, layer.inputs) for layer in self.decoder.layers)

    def _positions(self) -> LearnedPositions:
        """A table of positions, drawn as the tokens are."""
        positions = Learned(longest=self.spec.longest).build(self.spec.d_model)
        if not positions.weight.is_meta:
            nn.init.normal_(positions.weight, std=0.1)
        return positions


class _GradientScaled(torch.autograd.Function):
    """The same value with a smaller gradient: the encoder hears from every layer of the decoder."""

    @staticmethod
    def forward(ctx: object, states: Tensor, scale: float) -> Tensor:
        ctx.scale = scale  # type: ignore[attr-defined]
        return states.view_as(states)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.scale, None  # type: ignore[attr-defined]


def _gradient_scaled(states: Tensor, scale: float) -> Tensor:
    """`states`, with a gradient that is `scale` times as large."""
    scaled: Tensor = _GradientScaled.apply(states, scale)
    return scaled


def _drawn(module: nn.Module, deviation: float) -> nn.Module:
    """Normal weights, zero biases, and weight normalisation."""
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    if not weight.is_meta:
        nn.init.normal_(weight, std=deviation)
        nn.init.zeros_(bias)
    normalised: nn.Module = weight_norm(module)
    return normalised
