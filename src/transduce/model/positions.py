"""Where a token stands: sinusoids (section 3.5) or a learned table (Table 3, row E)."""

import math
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from transduce.settings import Spec


class Sinusoidal(Spec):
    """Fixed sines and cosines of geometric wavelengths.

    `interleaved` is the text's: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same). `halves` is
    the released code's: all sines, then all cosines, exponents spaced over d_model/2 − 1.
    """

    kind: Literal["sinusoidal"] = "sinusoidal"
    layout: Literal["interleaved", "halves"] = "interleaved"

    def build(self, d_model: int) -> "SinusoidalPositions":
        """The module; `d_model` must be even."""
        return SinusoidalPositions(self, d_model)


class Learned(Spec):
    """A trained vector for each of `longest` positions; a sentence longer than that has none."""

    kind: Literal["learned"] = "learned"
    longest: int = Field(default=512, ge=1)

    def build(self, d_model: int) -> "LearnedPositions":
        """The module."""
        return LearnedPositions(self, d_model)


PositionsSpec = Annotated[Sinusoidal | Learned, Field(discriminator="kind")]


def sinusoids(length: int, d_model: int, layout: str = "interleaved") -> Float[Tensor, "length d_model"]:
    """The table of section 3.5, worked out in float64 and given in float32."""
    # On the CPU by name: a model may be laid out on no device at all, and the table is no weight of it.
    pairs = torch.arange(d_model // 2, dtype=torch.float64, device="cpu")
    spacing = d_model / 2 if layout == "interleaved" else max(d_model / 2 - 1, 1)
    rates = torch.exp(-math.log(10000.0) * pairs / spacing)
    angles = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * rates
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1 if layout == "interleaved" else 1)
    return waves.flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Sinusoids for any length: the table grows when a longer sentence comes."""

    longest = None
    table: Tensor

    def __init__(self, spec: Sinusoidal, d_model: int) -> None:
        super().__init__()
        self.d_model, self.layout = d_model, spec.layout
        self.register_buffer("table", sinusoids(512, d_model, spec.layout), persistent=False)

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """The vectors of positions `first` to `first + length − 1`, counted from 0."""
        table = self.table  # read once: another thread may put a shorter one in its place
        if first + length > len(table):
            self.table = table = sinusoids(2 * (first + length), self.d_model, self.layout).to(table)
        return table[first : first + length]


class LearnedPositions(nn.Module):
    """A table of trained vectors."""

    def __init__(self, spec: Learned, d_model: int) -> None:
        super().__init__()
        self.longest = spec.longest
        self.weight = nn.Parameter(torch.empty(spec.longest, d_model))

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """The vectors of positions `first` to `first + length − 1`, counted from 0."""
        if first + length > self.longest:
            raise ValueError(
                f"a sentence of {first + length} subwords is longer than the {self.longest} positions this model has "
                "learned; shorten it, or train with as many"
            )
        return self.weight[first : first + length]
