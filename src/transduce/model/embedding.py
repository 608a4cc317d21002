"""From tokens to vectors: embedding · √d_model + position, then dropout (sections 3.4, 3.5, 5.4).

Positions are sinusoids (section 3.5) or a learned table (Table 3, row E).
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
    """Fixed sines and cosines of geometric wavelengths.

    `interleaved` is the layout in the paper: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the
    same angle. `halves` is the layout of the released code: all sines, then all cosines, with exponents spaced over
    d_model/2 − 1. `paper-halves` puts the paper's values in the order of the released code, like Hugging Face's Marian
    models.
    """

    kind: Literal["sinusoidal"] = "sinusoidal"
    layout: Literal["interleaved", "halves", "paper-halves"] = Field(
        default="interleaved",
        description="Sines and cosines in turn (paper), all sines first with other wavelengths (released code), or all "
        "sines first with the paper's wavelengths (Hugging Face's Marian models).",
    )
    first: int = Field(
        default=0, ge=0, le=1000, description="Position of a sentence's first token; 2 in models of fairseq."
    )

    def build(self, d_model: int) -> "SinusoidalPositions":
        """Builds the module; `d_model` must be even."""
        return SinusoidalPositions(self, d_model)


class Learned(Spec):
    """A trained vector for each of `max_positions` positions; a longer sentence is refused."""

    kind: Literal["learned"] = "learned"
    max_positions: int = Field(default=512, ge=1, description="Number of positions; keep it above `data.max_length`.")

    def build(self, d_model: int) -> "LearnedPositions":
        """Builds the module."""
        return LearnedPositions(self, d_model)


PositionsSpec = Annotated[Sinusoidal | Learned, Field(discriminator="kind")]


def sinusoids(length: int, d_model: int, layout: str = "interleaved") -> Float[Tensor, "length d_model"]:
    """Computes the table of section 3.5 in float64 and rounds it to float32."""
    # On the CPU even if the model is built on the meta device, because the table is not a weight and is not loaded from
    # a file.
    pairs = torch.arange(d_model // 2, dtype=torch.float64, device="cpu")
    spacing = max(d_model / 2 - 1, 1) if layout == "halves" else d_model / 2
    rates = torch.exp(-math.log(10000.0) * pairs / spacing)
    angles = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * rates
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1 if layout == "interleaved" else 1)
    return waves.flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Sinusoids for any length; the table grows when a sentence is longer."""

    max_positions = None
    table: Tensor

    def __init__(self, spec: Sinusoidal, d_model: int) -> None:
        super().__init__()
        self.d_model, self.layout, self.first = d_model, spec.layout, spec.first
        self.register_buffer("table", sinusoids(512, d_model, spec.layout), persistent=False)

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the position vectors of tokens `first` to `first + length − 1`, counted from 0."""
        first += self.first
        table = self.table  # read once: another thread may replace it with a shorter one
        if first + length > len(table):
            self.table = table = sinusoids(2 * (first + length), self.d_model, self.layout).to(table)
        return table[first : first + length]


class LearnedPositions(nn.Module):
    """A table of trained vectors."""

    def __init__(self, spec: Learned, d_model: int) -> None:
        super().__init__()
        self.max_positions = spec.max_positions
        self.weight = nn.Parameter(torch.empty(spec.max_positions, d_model))

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns the position vectors of tokens `first` to `first + length − 1`, counted from 0.

        Raises ValueError if the table is too short.
        """
        if first + length > self.max_positions:
            raise ValueError(
                f"a sentence of {first + length} tokens is longer than the {self.max_positions} learned positions of "
                "this model: shorten the sentence, or train with a larger model.positions.max_positions"
            )
        return self.weight[first : first + length]


class Embedding(nn.Module):
    """The source or target token table, which may be shared, plus positions, with dropout on the sum."""

    def __init__(self, weight: nn.Parameter, positions: nn.Module, dropout: float, blank: int | None = None) -> None:
        super().__init__()
        self.weight = weight
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(weight.shape[1])
        self.blank = blank  # token whose vector is zeros: the first input of the decoder in the released code

    def forward(self, tokens: Int[Tensor, "rows length"], first: int = 0) -> Float[Tensor, "rows length d_model"]:
        """Computes the vectors of `tokens`; the first token is at position `first`."""
        vectors = functional.embedding(tokens, self.weight)
        if self.blank is not None:
            vectors = vectors.masked_fill((tokens == self.blank).unsqueeze(-1), 0.0)
        positions = self.positions(first, tokens.shape[1])
        return self.dropout(_to_autocast_precision(torch.add(positions, vectors, alpha=self.scale)))


def _to_autocast_precision(states: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Casts the states to bfloat16 if autocast on a CPU computes matrix multiplications in bfloat16.

    The states then stay in bfloat16 between multiplications. A GPU does not need this: autocast casts the states to
    float32 for every norm there, but compiled code fuses the cast.
    """
    autocast_to_bfloat16 = (
        states.is_cpu and torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    )
    return states.bfloat16() if autocast_to_bfloat16 else states
