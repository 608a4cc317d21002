"""ConvS2S: gated convolutions, with attention in every layer of the decoder (Gehring et al. 2017)."""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from transduce.model.attention_scores import masked_softmax
from transduce.model.decoder_state import HypothesisRows, RecurrentState
from transduce.model.embedding import Learned, LearnedPositions
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.residual import Dropout
from transduce.model.translation_model import (
    BaseModelSpec,
    Decoded,
    Layers,
    TranslationModel,
    Vocabulary,
    embeddings,
    typed_module_list,
)
from transduce.paper.models.token_vectors import TokenVectors
from transduce.settings import Spec

SQRT_HALF = math.sqrt(0.5)  # preserves the variance of a sum of two

Memory = tuple[Float[Tensor, "batch source d_model"], Float[Tensor, "batch source d_model"]]


class Block(Spec):
    """Settings of `layers` gated convolutions with one width and kernel."""

    layers: Layers = Field(description="Number of convolutions.")
    width: int = Field(ge=1, description="Width of their states.")
    kernel: int = Field(ge=1, description="Kernel width.")


Blocks = tuple[Block, ...]


class Convolutional(BaseModelSpec):
    """Settings of blocks of gated convolutions on each side, over tokens and learned positions of width `d_model`."""

    kind: Literal["convolutional"] = "convolutional"
    encoder: Blocks = Field(min_length=1, description="Blocks of the encoder.")
    decoder: Blocks = Field(min_length=1, description="Blocks of the decoder.")
    max_positions: int = Field(default=1024, ge=1, description="Number of learned positions.")
    readout: ReadoutSpec = Field(default=Tied(), description="Projection before the softmax.")

    def build(self, vocabulary: Vocabulary) -> "ConvolutionalModel":
        """Builds the model with fresh weights, drawn from torch's generator."""
        return ConvolutionalModel(self, vocabulary)

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications as `BaseModelSpec.multiplications`."""
        widths = [block.width for block in self.decoder for _ in range(block.layers)]
        attention = 2 * self.d_model * (sum(widths) + length * len(widths))
        return self._stack_multiplications(self.encoder), self._stack_multiplications(self.decoder) + attention

    def _stack_multiplications(self, blocks: Blocks) -> int:
        """Counts the multiplications of one token in the layers of the encoder or the decoder."""
        inputs, total = blocks[0].width, self.d_model * blocks[0].width
        for block in blocks:
            for _ in range(block.layers):
                total += 2 * block.width * block.kernel * inputs + (
                    inputs * block.width if inputs != block.width else 0
                )
                inputs = block.width
        return total + inputs * self.d_model


def normalised_linear(inputs: int, outputs: int, dropout: float) -> nn.Module:
    """Builds a linear map with weight normalisation whose initial weights preserve the variance."""
    return _draw_normalised(nn.Linear(inputs, outputs), math.sqrt((1 - dropout) / inputs))


class GatedConvolution(nn.Module):
    """A convolution to twice the width, then a gated linear unit."""

    def __init__(self, inputs: int, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.inputs, self.kernel = inputs, kernel
        convolution = nn.Conv1d(inputs, 2 * width, kernel)
        self.convolution = _draw_normalised(convolution, math.sqrt(4 * (1 - dropout) / (kernel * inputs)))
        self.dropout = Dropout(dropout)

    def forward(self, padded: Float[Tensor, "batch padded inputs"]) -> Float[Tensor, "batch length width"]:
        """Convolves states that are padded with kernel − 1 more positions."""
        raised = self.convolution(self.dropout(padded).transpose(1, 2)).transpose(1, 2)
        return functional.glu(raised, dim=-1)


class AttentionStep(nn.Module):
    """Attention of a decoder layer, with its state and the last token as query (section 3.3 of that paper)."""

    def __init__(self, width: int, d_model: int) -> None:
        super().__init__()
        self.query = normalised_linear(width, d_model, 0.0)
        self.output = normalised_linear(d_model, width, 0.0)

    def forward(
        self,
        states: Float[Tensor, "rows new width"],
        vectors: Float[Tensor, "rows new d_model"],
        memory: Memory,
        visible: Bool[Tensor, "batch source"],
        rows: HypothesisRows | None,
    ) -> Float[Tensor, "rows new width"]:
        """Returns the states plus the attention output."""
        query = (self.query(states) + vectors) * SQRT_HALF
        query = query if rows is None else rows.to_rectangle(query)
        scores = query @ memory[0].transpose(1, 2)
        weights = masked_softmax(scores, visible.unsqueeze(1))
        # A mean of m inputs: m √(1/m) preserves the variance where all weights are equal.
        scale = visible.sum(1).clamp(min=1).to(scores.dtype).sqrt().view(-1, 1, 1)
        attended = (weights @ memory[1]) * scale
        return (states + self.output(attended if rows is None else rows.from_rectangle(attended))) * SQRT_HALF


class ConvolutionalStack(nn.Module):
    """The layers of the encoder or the decoder, with residual connections scaled by √½."""

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
    """Computes all positions of a sentence at once; the decoder's kernels read earlier positions only."""

    def __init__(self, spec: Convolutional, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary, self.max_positions = spec, vocabulary, spec.max_positions
        source, target = embeddings(spec, vocabulary)
        self.source_embedding, self.target_embedding = TokenVectors(source, 0.1), TokenVectors(target, 0.1)
        self.source_positions, self.target_positions = self._positions(), self._positions()
        self.dropout = Dropout(spec.dropout)
        self.encoder = ConvolutionalStack(spec.encoder, spec.d_model, spec.dropout)
        self.decoder = ConvolutionalStack(spec.decoder, spec.d_model, spec.dropout)
        widths = [block.width for block in spec.decoder for _ in range(block.layers)]
        self.attention = typed_module_list(AttentionStep(width, spec.d_model) for width in widths)
        self.readout = spec.readout.build(target, spec.symbols.pad)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Decoded:
        """Returns the decoder's states after each token of `target_in`."""
        states, _ = self._decode(target_in, 0, self._encode(source, visible), visible, self._zeros(len(source)), None)
        return Decoded(states)

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> RecurrentState:
        """Returns the state before the first token."""
        return RecurrentState.of((*self._encode(source, visible), visible), self._zeros(len(source)))

    def step(
        self, tokens: Int[Tensor, "rows new"], state: RecurrentState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], RecurrentState]:
        """Returns log-probabilities of the token after each of `tokens`, and the state with `tokens` appended."""
        keys, values, visible = state.memory
        states, carried = self._decode(tokens, state.length, (keys, values), visible, state.carried, state.rows)
        return self.readout(states), state._replace(carried=carried, length=state.length + tokens.shape[1])

    def _encode(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]) -> Memory:
        """Returns keys z and values (z + e) √½."""
        vectors = self.dropout(self.source_embedding(source) + self.source_positions(0, source.shape[1]))
        encoder, present = self.encoder, visible.unsqueeze(2).to(vectors.dtype)
        states = encoder.enter(vectors)
        for layer, around in zip(encoder.layers, encoder.around, strict=True):
            before = (layer.kernel - 1) // 2
            padded = functional.pad(states * present, (0, 0, before, layer.kernel - 1 - before))
            states = (around(states) + layer(padded)) * SQRT_HALF
        keys = _ScaleGradient.apply(encoder.leave(states), 1 / (2 * self.decoder.depth))
        return keys, (keys + vectors) * SQRT_HALF

    def _decode(
        self,
        tokens: Int[Tensor, "rows new"],
        first: int,
        memory: Memory,
        visible: Bool[Tensor, "batch source"],
        carried: tuple[Float[Tensor, "rows _ _"], ...],
        rows: HypothesisRows | None,
    ) -> tuple[Float[Tensor, "rows new d_model"], tuple[Float[Tensor, "rows _ _"], ...]]:
        """Returns the states after new tokens, and each layer's inputs for the next token."""
        vectors = self.dropout(self.target_embedding(tokens) + self.target_positions(first, tokens.shape[1]))
        decoder, next_carried = self.decoder, []
        states = decoder.enter(vectors)
        for layer, around, attention, earlier in zip(
            decoder.layers, decoder.around, self.attention, carried, strict=True
        ):
            padded = torch.cat([earlier.to(states.dtype), states], dim=1)
            next_carried.append(padded[:, padded.shape[1] - (layer.kernel - 1) :])
            raised = attention(layer(padded), vectors, memory, visible, rows)
            states = (around(states) + raised) * SQRT_HALF
        return self.dropout(decoder.leave(states)), tuple(next_carried)

    def _zeros(self, rows: int) -> tuple[Tensor, ...]:
        """Returns the zeros that the decoder's layers carry before the first token."""
        weight = self.target_embedding.weight
        return tuple(weight.new_zeros(rows, layer.kernel - 1, layer.inputs) for layer in self.decoder.layers)

    def _positions(self) -> LearnedPositions:
        """Builds a table of positions with the initialisation of the tokens."""
        positions = Learned(max_positions=self.spec.max_positions).build(self.spec.d_model)
        if not positions.weight.is_meta:
            nn.init.normal_(positions.weight, std=0.1)
        return positions


class _ScaleGradient(torch.autograd.Function):
    """The identity, whose gradient is scaled: the encoder gets a gradient from every layer of the decoder."""

    @staticmethod
    def forward(ctx: object, states: Tensor, scale: float) -> Tensor:
        ctx.scale = scale  # type: ignore[attr-defined]
        return states.view_as(states)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.scale, None  # type: ignore[attr-defined]


def _draw_normalised(module: nn.Module, deviation: float) -> nn.Module:
    """Draws normal weights and zero biases; returns the module with weight normalisation."""
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    if not weight.is_meta:
        nn.init.normal_(weight, std=deviation)
        nn.init.zeros_(bias)
    return weight_norm(module)
