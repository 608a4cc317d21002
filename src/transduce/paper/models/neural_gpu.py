"""The Extended Neural GPU, with convolutional gated recurrent units and an output tape (Kaiser and Bengio 2016)."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn

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

Image = Float[Tensor, "rows d_model columns height"]


class NeuralGpu(BaseModelSpec):
    """Settings of a Neural GPU, which applies `layers` convolutional GRUs to its whole memory in every step.

    The memory has `height` rows. It has `stretch` times as many columns as the source has tokens, plus `extra` columns.
    Each target token is written to the next column, and all tokens beyond the last column are written to the last
    column.
    """

    kind: Literal["neural_gpu"] = "neural_gpu"
    layers: Layers = Field(default=2, description="Number of convolutional GRUs that are applied in each step.")
    height: int = Field(default=4, ge=1, description="Number of rows in the memory.")
    kernel: int = Field(default=3, ge=1, description="Kernel width and height of the convolutions, an odd number.")
    stretch: float = Field(
        default=1.2, ge=1, description="Number of columns in the memory per source token, before `extra` is added."
    )
    extra: int = Field(default=4, ge=0, description="Number of columns that are added to the memory of each sentence.")
    readout: ReadoutSpec = Field(default=Tied(), description="Projection from hidden states to logits.")

    @field_validator("kernel")
    @classmethod
    def _check_kernel(cls, value: int) -> int:
        """Raises ValueError if the kernel width is even, because the memory would then change its size."""
        if value % 2 == 0:
            raise ValueError("must be odd")
        return value

    def build(self, vocabulary: Vocabulary) -> "NeuralGpuModel":
        """Builds the model, with weights that are initialised from torch's random number generator."""
        return NeuralGpuModel(self, vocabulary)

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications per source token and per target token; see `BaseModelSpec.multiplications`.

        Every step updates the whole memory.
        """
        columns = math.ceil(self.stretch * length) + self.extra
        step = self.layers * columns * self.height * self.kernel**2 * self.d_model**2
        return columns * 3 * step / length, 6 * step


class ConvolutionalGru(nn.Module):
    """A gated recurrent unit in which convolutions replace the linear maps.

    It computes u ⊙ s + (1 − u) ⊙ tanh(U ∗ (r ⊙ s) + W ∗ p + B) from the memory s and the tape p. The gates u and r are
    sigmoids of convolutions of s and p.
    """

    def __init__(self, spec: NeuralGpu, tape: bool) -> None:
        super().__init__()
        width, padding = spec.d_model, spec.kernel // 2
        self.gates = nn.Conv2d(width, 2 * width, spec.kernel, padding=padding)
        self.new = nn.Conv2d(width, width, spec.kernel, padding=padding)
        self.from_tape = nn.Conv2d(width, 3 * width, spec.kernel, padding=padding, bias=False) if tape else None
        self.dropout = Dropout(spec.dropout)

    def forward(self, memory: Image, present: Tensor, tape: Image | None = None) -> Image:
        """Computes the memory after one step; columns that a sentence does not have remain zero."""
        update, reset = self.gates(memory).chunk(2, 1)
        if tape is None or self.from_tape is None:
            added: Tensor | float = 0.0
        else:
            update_from_tape, reset_from_tape, added = self.from_tape(tape).chunk(3, 1)
            update, reset = update + update_from_tape, reset + reset_from_tape
        u, r = torch.sigmoid(update), torch.sigmoid(reset)
        new = torch.tanh(self.new(r * memory) + added)
        return (u * memory + (1 - u) * self.dropout(new)) * present


class NeuralGpuModel(BaselineModel):
    """A Neural GPU, which updates its whole memory in every step.

    The target tokens are written to a tape that has the same shape as the memory.
    """

    def __init__(self, spec: NeuralGpu, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.spec, self.vocabulary = spec, vocabulary
        source, target = embeddings(spec, vocabulary)
        self.source_embedding, self.target_embedding = TokenVectors(source), TokenVectors(target)
        self.encoder = typed_module_list(ConvolutionalGru(spec, tape=False) for _ in range(spec.layers))
        self.decoder = typed_module_list(ConvolutionalGru(spec, tape=True) for _ in range(spec.layers))
        self.readout = spec.readout.build(target, spec.symbols.pad)

    def encode(self, source: Source, visible: Visible) -> Encoded:
        """Returns the number of columns of each sentence, its memory after that number of steps, and an empty tape."""
        # In float64, as in Python: 1.2 · 25 is 30 in float64, and more than 30 in float32.
        columns = torch.ceil(self.spec.stretch * visible.sum(1).double()).long() + self.spec.extra
        width = math.ceil(self.spec.stretch * source.shape[1]) + self.spec.extra
        weight = self.source_embedding.weight
        vectors = self.source_embedding(source) * visible.unsqueeze(2).to(weight.dtype)
        memory = weight.new_zeros(len(source), self.spec.d_model, width, self.spec.height)
        memory[:, :, : source.shape[1], 0] = vectors.transpose(1, 2)
        present = self._present(columns, memory)
        for step in range(width):
            updated = memory
            for layer in self.encoder:
                updated = layer(updated, present)
            memory = torch.where((columns > step).view(-1, 1, 1, 1), updated, memory)
        return Encoded((columns,), (memory, torch.zeros_like(memory)))

    def decode_rows(
        self, tokens: Tokens, first: int, memory: Tensors, carried: Tensors, rows: HypothesisRows | None
    ) -> tuple[States, Tensors]:
        """Returns a hidden state for each new token, and the updated memory and tape.

        The hidden state of a token is the first cell of its column in the memory, after the step that reads the token.
        """
        columns = memory[0] if rows is None else memory[0][rows.sentences]
        image, tape = carried
        present, vectors, states = self._present(columns, image), self.target_embedding(tokens), []
        first_row = image.new_zeros(image.shape[3])  # of the image: tokens are written there
        first_row[0] = 1
        for index in range(tokens.shape[1]):
            column = (columns - 1).clamp(max=first + index)
            at_column = nn.functional.one_hot(column, image.shape[2]).to(image.dtype)[:, None, :, None]
            tape = tape * (1 - at_column) + at_column * vectors[:, index, :, None, None] * first_row
            for layer in self.decoder:
                image = layer(image, present, tape)
            states.append((image * at_column)[:, :, :, 0].sum(2))
        return torch.stack(states, dim=1), (image, tape)

    def _present(self, columns: Tensor, memory: Image) -> Tensor:
        """Returns a mask that is 1 in the columns that a sentence has, and 0 in all others."""
        numbers = torch.arange(memory.shape[2], device=memory.device)
        return (numbers < columns.unsqueeze(1)).view(len(columns), 1, -1, 1).to(memory.dtype)
