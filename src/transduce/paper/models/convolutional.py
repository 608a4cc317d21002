"""ConvS2S, a model of gated convolutions that has attention in every decoder layer (Gehring et al. 2017)."""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from transduce.model.attention_scores import masked_softmax
from transduce.model.decoder_state import HypothesisRows
from transduce.model.embedding import Learned, LearnedPositions
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.residual import Dropout
from transduce.model.translation_model import (
    BaseModelSpec,
    Layers,
    Vocabulary,
    embeddings,
    typed_module_list,
)
from transduce.paper.models.baseline import (
    BaselineModel,
    Encoded,
    Source,
    States,
    Tensors,
    Tokens,
    TokenVectors,
    Visible,
)
from transduce.settings import Spec

SQRT_HALF = math.sqrt(0.5)  # preserves the variance when it scales a sum of two terms

Memory = tuple[Float[Tensor, "batch source d_model"], Float[Tensor, "batch source d_model"]]


class Block(Spec):
    """Settings of `layers` gated convolutions that share one width and one kernel width."""

    layers: Layers = Field(description="Number of convolutions in the block.")
    width: int = Field(ge=1, description="Dimension of the hidden states.")
    kernel: int = Field(ge=1, description="Kernel width of the convolutions.")


Blocks = tuple[Block, ...]


class Convolutional(BaseModelSpec):
    """Settings of ConvS2S, with blocks of gated convolutions in the encoder and in the decoder.

    The embeddings of the tokens and of their learned positions have the width `d_model`.
    """

    kind: Literal["convolutional"] = "convolutional"
    encoder: Blocks = Field(min_length=1, description="Blocks of the encoder, from the input to the output.")
    decoder: Blocks = Field(min_length=1, description="Blocks of the decoder, from the input to the output.")
    max_positions: int = Field(
        default=1024,
        ge=1,
        description="Maximum sentence length in tokens, including EOS; choose more than `data.max_length`.",
    )
    readout: ReadoutSpec = Field(default=Tied(), description="Projection from hidden states to logits.")

    def build(self, vocabulary: Vocabulary) -> "ConvolutionalModel":
        """Builds the model, with weights that are initialised from torch's random number generator."""
        return ConvolutionalModel(self, vocabulary)

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications per source token and per target token; see `BaseModelSpec.multiplications`."""
        totals = []
        for blocks in (self.encoder, self.decoder):
            inputs, total = blocks[0].width, self.d_model * blocks[0].width
            for width, kernel in layers_of(blocks):
                total += 2 * width * kernel * inputs + (inputs * width if inputs != width else 0)
                inputs = width
            totals.append(total + inputs * self.d_model)
        widths = [width for width, _ in layers_of(self.decoder)]
        return totals[0], totals[1] + 2 * self.d_model * (sum(widths) + length * len(widths))


def layers_of(blocks: Blocks) -> list[tuple[int, int]]:
    """Returns the width and the kernel width of each layer."""
    return [(block.width, block.kernel) for block in blocks for _ in range(block.layers)]


def normalised_linear(inputs: int, outputs: int, dropout: float) -> nn.Module:
    """Builds a weight-normalised linear layer that is initialised so that it preserves the variance of its input."""
    return _draw_normalised(nn.Linear(inputs, outputs), math.sqrt((1 - dropout) / inputs))


class GatedConvolution(nn.Module):
    """A convolution to twice the width, followed by a gated linear unit."""

    def __init__(self, inputs: int, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.inputs, self.kernel = inputs, kernel
        convolution = nn.Conv1d(inputs, 2 * width, kernel)
        self.convolution = _draw_normalised(convolution, math.sqrt(4 * (1 - dropout) / (kernel * inputs)))
        self.dropout = Dropout(dropout)

    def forward(self, padded: Float[Tensor, "batch padded inputs"]) -> Float[Tensor, "batch length width"]:
        """Convolves states that have been padded with kernel − 1 more positions."""
        raised = self.convolution(self.dropout(padded).transpose(1, 2)).transpose(1, 2)
        return functional.glu(raised, dim=-1)


class AttentionStep(nn.Module):
    """The attention of a decoder layer (section 3.3 of Gehring et al. 2017).

    The query is computed from the state of the layer and the embedding of the last token.
    """

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
        """Adds the attention output to the states, and scales the sum by √½."""
        query = (self.query(states) + vectors) * SQRT_HALF
        query = query if rows is None else rows.to_rectangle(query)
        scores = query @ memory[0].transpose(1, 2)
        weights = masked_softmax(scores, visible.unsqueeze(1))
        # If all weights are equal, this is a mean of m inputs, and scaling it by m √(1/m) preserves the variance.
        scale = visible.sum(1).clamp(min=1).to(scores.dtype).sqrt().view(-1, 1, 1)
        attended = (weights @ memory[1]) * scale
        return (states + self.output(attended if rows is None else rows.from_rectangle(attended))) * SQRT_HALF


class ConvolutionalStack(nn.Module):
    """The layers of the encoder or the decoder, with residual connections that are scaled by √½."""

    def __init__(self, blocks: Blocks, d_model: int, dropout: float) -> None:
        super().__init__()
        layers = layers_of(blocks)
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


class ConvolutionalModel(BaselineModel):
    """A ConvS2S model, which computes all positions of a sentence at once.

    The decoder's convolutions are causal.
    """

    def __init__(self, spec: Convolutional, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary, self.max_positions = spec, vocabulary, spec.max_positions
        source, target = embeddings(spec, vocabulary)
        self.source_embedding, self.target_embedding = TokenVectors(source, 0.1), TokenVectors(target, 0.1)
        self.source_positions, self.target_positions = self._positions(), self._positions()
        self.dropout = Dropout(spec.dropout)
        self.encoder = ConvolutionalStack(spec.encoder, spec.d_model, spec.dropout)
        self.decoder = ConvolutionalStack(spec.decoder, spec.d_model, spec.dropout)
        self.attention = typed_module_list(AttentionStep(width, spec.d_model) for width, _ in layers_of(spec.decoder))
        self.readout = spec.readout.build(target, spec.symbols.pad)

    def encode(self, source: Source, visible: Visible) -> Encoded:
        """Returns keys z, values (z + e) √½ and visible positions as memory, and zeros for the decoder's layers."""
        vectors = self.dropout(self.source_embedding(source) + self.source_positions(0, source.shape[1]))
        encoder, present = self.encoder, visible.unsqueeze(2).to(vectors.dtype)
        states = encoder.enter(vectors)
        for layer, around in zip(encoder.layers, encoder.around, strict=True):
            before = (layer.kernel - 1) // 2
            padded = functional.pad(states * present, (0, 0, before, layer.kernel - 1 - before))
            states = (around(states) + layer(padded)) * SQRT_HALF
        keys = _ScaleGradient.apply(encoder.leave(states), 1 / (2 * self.decoder.depth))
        weight, rows = self.target_embedding.weight, len(source)
        zeros = (weight.new_zeros(rows, layer.kernel - 1, layer.inputs) for layer in self.decoder.layers)
        return Encoded((keys, (keys + vectors) * SQRT_HALF, visible), tuple(zeros))

    def decode_rows(
        self, tokens: Tokens, first: int, memory: Tensors, carried: Tensors, rows: HypothesisRows | None
    ) -> tuple[States, Tensors]:
        """Returns the hidden states after the new tokens, and the new cache.

        For each layer, the cache holds the inputs that are needed to decode the next token.
        """
        keys, values, visible = memory
        vectors = self.dropout(self.target_embedding(tokens) + self.target_positions(first, tokens.shape[1]))
        decoder, next_carried = self.decoder, []
        states = decoder.enter(vectors)
        for layer, around, attention, earlier in zip(
            decoder.layers, decoder.around, self.attention, carried, strict=True
        ):
            padded = torch.cat([earlier.to(states.dtype), states], dim=1)
            next_carried.append(padded[:, padded.shape[1] - (layer.kernel - 1) :])
            raised = attention(layer(padded), vectors, (keys, values), visible, rows)
            states = (around(states) + raised) * SQRT_HALF
        return self.dropout(decoder.leave(states)), tuple(next_carried)

    def _positions(self) -> LearnedPositions:
        """Builds learned positions that are initialised like the token embeddings."""
        positions = Learned(max_positions=self.spec.max_positions).build(self.spec.d_model)
        if not positions.weight.is_meta:
            nn.init.normal_(positions.weight, std=0.1)
        return positions


class _ScaleGradient(torch.autograd.Function):
    """The identity function with a gradient that is multiplied by `scale`.

    The encoder's gradient is scaled down because every layer of the decoder contributes to it.
    """

    @staticmethod
    def forward(ctx: object, states: Tensor, scale: float) -> Tensor:
        ctx.scale = scale  # type: ignore[attr-defined]
        return states.view_as(states)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.scale, None  # type: ignore[attr-defined]


def _draw_normalised(module: nn.Module, deviation: float) -> nn.Module:
    """Initialises the weights from a normal distribution and the biases with zero, and adds weight normalisation."""
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    if not weight.is_meta:
        nn.init.normal_(weight, std=deviation)
        nn.init.zeros_(bias)
    return weight_norm(module)
