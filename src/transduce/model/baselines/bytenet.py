"""ByteNet: dilated residual blocks, the decoder unfolding over the encoder (Kalchbrenner et al. 2016)."""

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.baselines.token_vectors import TokenVectors
from transduce.model.decoder_state import RecurrentState
from transduce.model.dropout import Dropout
from transduce.model.readout import ReadoutSpec, Tied
from transduce.model.translation_model import (
    BaseModelSpec,
    Layers,
    TranslationModel,
    Vocabulary,
    embeddings,
    typed_module_list,
)


class ByteNet(BaseModelSpec):
    """`sets` times one residual block for each of `dilations`, on each side; a block is d_model / 2 wide inside.

    The source's representation is `stretch` times as long as the source, and the decoder reads one column of it with
    each token that it writes; made for characters or bytes, whose number differs little between languages.
    """

    kind: Literal["bytenet"] = "bytenet"
    d_model: int = Field(ge=2, multiple_of=2)
    sets: Layers = 6
    dilations: tuple[Annotated[int, Field(ge=1)], ...] = (1, 2, 4, 8, 16)
    kernel: int = Field(default=3, ge=1)
    stretch: float = Field(default=1.2, ge=1)
    readout: ReadoutSpec = Tied()

    def build(self, vocabulary: Vocabulary) -> "ByteNetModel":
        """The model with fresh weights, drawn from torch's generator."""
        return ByteNetModel(self, vocabulary)

    def products(self, length: int) -> tuple[int | float, int | float]:
        """As `FamilySpec.products`."""
        inner = self.d_model // 2
        typed_module_list = self.sets * len(self.dilations) * (2 * self.d_model * inner + self.kernel * inner**2)
        return math.ceil(self.stretch * length) / length * typed_module_list, typed_module_list + 2 * self.d_model**2


class ResidualBlock(nn.Module):
    """To half the width, a dilated convolution, back to the whole, each after a norm and a ReLU; added to the input."""

    def __init__(self, d_model: int, kernel: int, dilation: int, dropout: float) -> None:
        super().__init__()
        inner = d_model // 2
        self.span = (kernel - 1) * dilation  # places before the last that a place hears of
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in (d_model, inner, inner))
        self.reduce = nn.Linear(d_model, inner)
        self.convolution = nn.Conv1d(inner, inner, kernel, dilation=dilation)
        self.expand = nn.Linear(inner, d_model)
        self.dropout = Dropout(dropout)

    def narrowed(self, states: Float[Tensor, "rows length d_model"]) -> Float[Tensor, "rows length inner"]:
        """What the convolution reads."""
        reduced = self.reduce(functional.relu(self.norms[0](states)))
        return functional.relu(self.norms[1](reduced))

    def forward(
        self, states: Float[Tensor, "rows length d_model"], padded: Float[Tensor, "rows more inner"]
    ) -> Float[Tensor, "rows length d_model"]:
        """The states one block higher; `padded` is `narrowed` with `span` places more."""
        mixed = self.convolution(padded.transpose(1, 2)).transpose(1, 2)
        added: Tensor = states + self.dropout(self.expand(functional.relu(self.norms[2](mixed))))
        return added


class ByteNetModel(TranslationModel):
    """Time linear in both lengths, and no attention."""

    def __init__(self, spec: ByteNet, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary = spec, vocabulary
        source, target = embeddings(spec, vocabulary)
        deviation = spec.d_model**-0.5
        self.source_embedding, self.target_embedding = TokenVectors(source, deviation), TokenVectors(target, deviation)
        self.encoder, self.decoder = self._stack(), self._stack()
        self.join = nn.Linear(2 * spec.d_model, spec.d_model)
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(spec.d_model), nn.LayerNorm(spec.d_model)
        self.readout = spec.readout.build(target, spec.symbols.pad)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        visible: Bool[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder's states after each token of `target_in`."""
        columns = self._read(source, visible)
        states, _ = self._write(target_in, _columns(columns, 0, target_in.shape[1]), self._nothing(len(source)))
        return states

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> RecurrentState:
        """The state before the first token."""
        return RecurrentState.of((self._read(source, visible),), self._nothing(len(source)))

    def step(
        self, tokens: Int[Tensor, "rows new"], state: RecurrentState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], RecurrentState]:
        """Log-probabilities of the token after each of `tokens`, and the state with them written."""
        columns = _columns(state.memory[0], state.length, tokens.shape[1])[state.rows.sentences]
        states, carried = self._write(tokens, columns, state.carried)
        return self.readout(states), state._replace(carried=carried, length=state.length + tokens.shape[1])

    def _read(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch columns d_model"]:
        """The source's representation, stretched; zeros past its end."""
        longest = math.ceil(self.spec.stretch * source.shape[1])
        vectors = self.source_embedding(source) * visible.unsqueeze(2).to(self.source_embedding.weight.dtype)
        states = functional.pad(vectors, (0, 0, 0, longest - source.shape[1]))
        # In float64, as Python has it: 1.2 · 25 is 30 there, and more than 30 in float32.
        reached = torch.ceil(self.spec.stretch * visible.sum(1).double()).unsqueeze(1)
        present = (torch.arange(longest, device=source.device) < reached).unsqueeze(2).to(states.dtype)
        for block in self.encoder:
            before = block.span // 2
            narrowed = block.narrowed(states) * present
            states = block(states, functional.pad(narrowed, (0, 0, before, block.span - before)))
        columns: Tensor = self.encoder_norm(states) * present
        return columns

    def _write(
        self,
        tokens: Int[Tensor, "rows new"],
        columns: Float[Tensor, "rows new d_model"],
        carried: tuple[Float[Tensor, "rows _ inner"], ...],
    ) -> tuple[Float[Tensor, "rows new d_model"], tuple[Float[Tensor, "rows _ inner"], ...]]:
        """The states after new tokens, each beside its column, and what every block has to remember."""
        states, after = self.join(torch.cat([self.target_embedding(tokens), columns], dim=-1)), []
        for block, past in zip(self.decoder, carried, strict=True):
            padded = torch.cat([past, block.narrowed(states)], dim=1)
            after.append(padded[:, padded.shape[1] - block.span :])
            states = block(states, padded)
        return self.decoder_norm(states), tuple(after)

    def _nothing(self, rows: int) -> tuple[Float[Tensor, "rows _ inner"], ...]:
        """What the decoder's blocks remember before the first token: zeros."""
        weight = self.target_embedding.weight
        return tuple(weight.new_zeros(rows, block.span, self.spec.d_model // 2) for block in self.decoder)

    def _stack(self) -> Iterable[ResidualBlock]:
        """The blocks of one side."""
        spec = self.spec
        return typed_module_list(
            ResidualBlock(spec.d_model, spec.kernel, dilation, spec.dropout)
            for _ in range(spec.sets)
            for dilation in spec.dilations
        )


def _columns(columns: Float[Tensor, "batch columns d_model"], first: int, many: int) -> Tensor:
    """Columns `first` to `first + many − 1`, zeros where the representation has ended."""
    found = columns[:, first : first + many]
    return functional.pad(found, (0, 0, 0, many - found.shape[1]))
