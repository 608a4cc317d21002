"""Token embeddings and positional encodings (sections 3.4 and 3.5).

The input of the first layer is embedding · √d_model + position, followed by dropout (section 5.4). Positions are
encoded as sinusoids (section 3.5) or as a learned table (Table 3, row E).
"""

import math
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.residual import Dropout
from transduce.settings import Spec


class Sinusoidal(Spec):
    """Fixed sines and cosines whose wavelengths form a geometric progression.

    `interleaved` is the layout in the paper: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), and PE(pos, 2i+1) is the
    cosine of the same angle. `halves` is the layout of the released code: all sines come first, then all cosines, and
    the exponent is i/(d_model/2 − 1) instead of 2i/d_model. `paper-halves` has the paper's values in the order of the
    released code, as in Hugging Face's Marian models.
    """

    kind: Literal["sinusoidal"] = "sinusoidal"
    layout: Literal["interleaved", "halves", "paper-halves"] = Field(
        default="interleaved",
        description="Order of the features: alternating sines and cosines (paper), or all sines first, with the "
        "wavelengths of the released code (`halves`) or the paper (`paper-halves`, Hugging Face's Marian models).",
    )
    first: int = Field(
        default=0, ge=0, le=1000, description="Position of the first token of a sentence; fairseq models use 2."
    )

    def build(self, d_model: int) -> "SinusoidalPositions":
        """Builds the module; `d_model` must be even."""
        return SinusoidalPositions(self, d_model)


class Learned(Spec):
    """A learned vector for each of `max_positions` positions; a longer sentence is rejected."""

    kind: Literal["learned"] = "learned"
    max_positions: int = Field(
        default=512,
        ge=1,
        description="Maximum sentence length in tokens, including EOS; choose more than `data.max_length`.",
    )

    def build(self, d_model: int) -> "LearnedPositions":
        """Builds the module with an uninitialised table."""
        return LearnedPositions(self, d_model)


PositionsSpec = Annotated[Sinusoidal | Learned, Field(discriminator="kind")]


def sinusoids(length: int, d_model: int, layout: str = "interleaved") -> Float[Tensor, "length d_model"]:
    """Computes the table of section 3.5 in float64 and rounds it to float32."""
    # The table is computed on the CPU even if the model is built on the meta device, because it is not a weight and so
    # is not loaded from a file later.
    pairs = torch.arange(d_model // 2, dtype=torch.float64, device="cpu")
    spacing = max(d_model / 2 - 1, 1) if layout == "halves" else d_model / 2
    rates = torch.exp(-math.log(10000.0) * pairs / spacing)
    angles = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * rates
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1 if layout == "interleaved" else 1)
    return waves.flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Sinusoidal positional encodings for any sentence length; the table grows when necessary."""

    max_positions = None
    table: Tensor

    def __init__(self, spec: Sinusoidal, d_model: int) -> None:
        super().__init__()
        self.d_model, self.layout, self.first = d_model, spec.layout, spec.first
        self.register_buffer("table", sinusoids(512, d_model, spec.layout), persistent=False)

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the encodings of the positions `first` to `first + length − 1`, counted from 0."""
        first += self.first
        table = self.table  # read only once, because another thread may replace it with a shorter table
        if first + length > len(table):
            self.table = table = sinusoids(2 * (first + length), self.d_model, self.layout).to(table)
        return table[first : first + length]


class LearnedPositions(nn.Module):
    """Learned positional encodings, one vector for each position."""

    def __init__(self, spec: Learned, d_model: int) -> None:
        super().__init__()
        self.max_positions = spec.max_positions
        self.weight = nn.Parameter(torch.empty(spec.max_positions, d_model))

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the encodings of the positions `first` to `first + length − 1`, counted from 0.

        Raises ValueError if the table has fewer than `first + length` positions.
        """
        if first + length > self.max_positions:
            raise ValueError(
                f"a sentence of {first + length} tokens is longer than the {self.max_positions} learned positions of "
                "this model: shorten the sentence, or train with a larger model.positions.max_positions"
            )
        return self.weight[first : first + length]


class Embedding(nn.Module):
    """Scales the vectors of source or target tokens, adds the positional encodings, and applies dropout to the sum.

    The embedding matrix `weight` may be shared with other modules.
    """

    def __init__(self, weight: nn.Parameter, positions: nn.Module, dropout: float, blank: int | None = None) -> None:
        super().__init__()
        self.weight = weight
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(weight.shape[1])
        self.blank = blank  # the token whose vector is zero, which in the released code is the decoder's first input

    def forward(self, tokens: Int[Tensor, "rows length"], first: int = 0) -> Float[Tensor, "rows length d_model"]:
        """Computes the vectors of `tokens`, the first of which is at position `first`."""
        vectors = functional.embedding(tokens, self.weight)
        if self.blank is not None:
            vectors = vectors.masked_fill((tokens == self.blank).unsqueeze(-1), 0.0)
        positions = self.positions(first, tokens.shape[1])
        return self.dropout(_to_autocast_precision(torch.add(positions, vectors, alpha=self.scale)))


def _to_autocast_precision(states: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Casts the hidden states to bfloat16 if autocast multiplies matrices in bfloat16 on a CPU.

    The states then stay in bfloat16 between multiplications. On a GPU, autocast casts the states to float32 for every
    norm, but compiled code fuses this cast with other operations, so nothing needs to be done there.
    """
    autocast_to_bfloat16 = (
        states.is_cpu and torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    )
    return states.bfloat16() if autocast_to_bfloat16 else states
