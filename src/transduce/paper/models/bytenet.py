"""ByteNet, which stacks a decoder of dilated convolutions on top of the encoder (Kalchbrenner et al. 2016)."""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.decoder_state import HypothesisRows
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


class ByteNet(BaseModelSpec):
    """Settings of ByteNet, which stacks `sets` × `dilations` residual blocks in the encoder and in the decoder.

    A set has one block for each of `dilations`. The hidden states are d_model wide between blocks and half as wide
    inside a block. The encoder's output is `stretch` times as long as the source, and the decoder reads one column of
    it with each token. The design suits characters or bytes, because a sentence and its translation have similar
    numbers of them.
    """

    kind: Literal["bytenet"] = "bytenet"
    d_model: int = Field(
        ge=2,
        multiple_of=2,
        description="Dimension of the hidden states between blocks; inside a block, it is halved.",
    )
    sets: Layers = Field(default=6, description="Number of sets of blocks in the encoder and in the decoder.")
    dilations: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1, 2, 4, 8, 16), description="Dilation of the convolution in each block of a set."
    )
    kernel: int = Field(default=3, ge=1, description="Kernel width of the convolutions.")
    stretch: float = Field(
        default=1.2, ge=1, description="Length of the encoder output, as a multiple of the source length."
    )
    readout: ReadoutSpec = Field(default=Tied(), description="Projection from hidden states to logits.")

    def build(self, vocabulary: Vocabulary) -> "ByteNetModel":
        """Builds the model, with weights that are initialised from torch's random number generator."""
        return ByteNetModel(self, vocabulary)

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications per source token and per target token; see `BaseModelSpec.multiplications`."""
        inner = self.d_model // 2
        stack = self.sets * len(self.dilations) * (2 * self.d_model * inner + self.kernel * inner**2)
        return math.ceil(self.stretch * length) / length * stack, stack + 2 * self.d_model**2


class ResidualBlock(nn.Module):
    """A residual block that maps the states to half their width, applies a dilated convolution, and maps them back.

    Layer normalisation and ReLU precede each of the three maps. The result is added to the input of the block.
    """

    def __init__(self, d_model: int, kernel: int, dilation: int, dropout: float) -> None:
        super().__init__()
        inner = d_model // 2
        self.span = (kernel - 1) * dilation  # number of positions by which the convolution shortens its input
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in (d_model, inner, inner))
        self.reduce = nn.Linear(d_model, inner)
        self.convolution = nn.Conv1d(inner, inner, kernel, dilation=dilation)
        self.expand = nn.Linear(inner, d_model)
        self.dropout = Dropout(dropout)

    def convolution_input(self, states: Float[Tensor, "rows length d_model"]) -> Float[Tensor, "rows length inner"]:
        """Maps the states to half their width, as the input of the convolution."""
        states = self.reduce(functional.relu(self.norms[0](states)))
        return functional.relu(self.norms[1](states))

    def forward(
        self, states: Float[Tensor, "rows length d_model"], padded: Float[Tensor, "rows padded inner"]
    ) -> Float[Tensor, "rows length d_model"]:
        """Applies the block to the states.

        `padded` is the output of `convolution_input`, padded with `span` more positions.
        """
        mixed = self.convolution(padded.transpose(1, 2)).transpose(1, 2)
        return states + self.dropout(self.expand(functional.relu(self.norms[2](mixed))))


class ByteNetModel(BaselineModel):
    """A ByteNet model; it has no attention, and its time is linear in the lengths of the source and the target."""

    def __init__(self, spec: ByteNet, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary = spec, vocabulary
        source, target = embeddings(spec, vocabulary)
        self.source_embedding, self.target_embedding = TokenVectors(source), TokenVectors(target)
        self.encoder, self.decoder = self._stack(), self._stack()
        self.join = nn.Linear(2 * spec.d_model, spec.d_model)
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(spec.d_model), nn.LayerNorm(spec.d_model)
        self.readout = spec.readout.build(target, spec.symbols.pad)

    def encode(self, source: Source, visible: Visible) -> Encoded:
        """Returns the encoder's output as memory, and zeros as the carried inputs of the decoder's blocks.

        The output is zero past the end of each sentence.
        """
        length = math.ceil(self.spec.stretch * source.shape[1])
        weight = self.source_embedding.weight
        vectors = self.source_embedding(source) * visible.unsqueeze(2).to(weight.dtype)
        states = functional.pad(vectors, (0, 0, 0, length - source.shape[1]))
        # In float64, as in Python: 1.2 · 25 is 30 in float64, and more than 30 in float32.
        ends = torch.ceil(self.spec.stretch * visible.sum(1).double()).unsqueeze(1)
        present = (torch.arange(length, device=source.device) < ends).unsqueeze(2).to(states.dtype)
        for block in self.encoder:
            before = block.span // 2
            inner = block.convolution_input(states) * present
            states = block(states, functional.pad(inner, (0, 0, before, block.span - before)))
        zeros = (weight.new_zeros(len(source), block.span, self.spec.d_model // 2) for block in self.decoder)
        return Encoded((self.encoder_norm(states) * present,), tuple(zeros))

    def decode_rows(
        self, tokens: Tokens, first: int, memory: Tensors, carried: Tensors, rows: HypothesisRows | None
    ) -> tuple[States, Tensors]:
        """Returns the hidden states after the new tokens and, for each block, the inputs that the next token needs.

        Each token is read together with its column of the encoder's output, or with zeros past the end of that output.
        """
        columns = memory[0][:, first : first + tokens.shape[1]]
        columns = functional.pad(columns, (0, 0, 0, tokens.shape[1] - columns.shape[1]))  # zeros past the end
        columns = columns if rows is None else columns[rows.sentences]
        states, next_carried = self.join(torch.cat([self.target_embedding(tokens), columns], dim=-1)), []
        for block, earlier in zip(self.decoder, carried, strict=True):
            padded = torch.cat([earlier, block.convolution_input(states)], dim=1)
            next_carried.append(padded[:, padded.shape[1] - block.span :])
            states = block(states, padded)
        return self.decoder_norm(states), tuple(next_carried)

    def _stack(self) -> Iterable[ResidualBlock]:
        """Builds the blocks of the encoder or of the decoder."""
        spec = self.spec
        return typed_module_list(
            ResidualBlock(spec.d_model, spec.kernel, dilation, spec.dropout)
            for _ in range(spec.sets)
            for dilation in spec.dilations
        )
