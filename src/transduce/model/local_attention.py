"""Self-attention restricted to neighbours (section 4): O(r · n · d) instead of O(n² · d)."""

from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from transduce.model.attention import AttentionSpec, MultiHeadAttention
from transduce.model.decoder_state import DecodingContext
from transduce.model.mixer import Visible


class LocalAttention(AttentionSpec):
    """Each position attends to itself and at most `neighbours` positions on each side; in the decoder, before it.

    The paper's r counts the position and both sides: 2 · `neighbours` + 1.
    """

    kind: Literal["local_attention"] = "local_attention"
    neighbours: int = Field(
        ge=1,
        description="Positions on each side that are attended to; in the decoder before it only.",
    )

    def multiplications(self, d_model: int, visible: int | float, *, causal: bool = False) -> int | float:
        """Counts the multiplications for one token in a sentence of `visible` tokens."""
        return super().multiplications(d_model, min(visible, (1 if causal else 2) * self.neighbours + 1))

    def build(self, d_model: int) -> "NeighbourAttention":
        """Builds the module for states of width `d_model`."""
        return NeighbourAttention(self, d_model)


class NeighbourAttention(MultiHeadAttention):
    """Multi-head attention inside a band; memory and time grow with length × neighbours."""

    spec: LocalAttention

    def mix(
        self, states: Float[Tensor, "batch length d_model"], visible: Visible | None, causal: bool
    ) -> Float[Tensor, "batch length d_model"]:
        """Computes attention over sentences in blocks of `neighbours`; a block sees itself and the adjacent blocks."""
        length, reach = states.shape[1], self.spec.neighbours
        if reach >= length:
            return super().mix(states, visible, causal)
        blocks = -(-length // reach)
        after = 0 if causal else reach
        around = (reach, blocks * reach - length + after)
        width = 2 * reach + after
        query = functional.pad(self.project_query(states), (0, 0, 0, blocks * reach - length))
        keys, values = (functional.pad(part, (0, 0, *around)) for part in self.project_key_value(states))
        present = states.new_ones(len(states), 1, length, dtype=torch.bool) if visible is None else visible
        present = functional.pad(present, around).unfold(2, width, reach).transpose(1, 2).flatten(0, 1)
        # Masks [neighbours width]: the window positions that each position of a block may attend to, and the position
        # itself, which is visible even in padding, so that every query has a key.
        positions = torch.arange(width, device=states.device)
        distance = positions - reach - positions[:reach].unsqueeze(1)
        attended = self.attend(
            query.unflatten(2, (blocks, reach)).transpose(1, 2).flatten(0, 1),
            (_windows(keys, width, reach), _windows(values, width, reach)),
            present & (distance >= -reach) & (distance <= after) | (distance == 0),
        )
        return self.output(attended.unflatten(0, (len(states), blocks)).flatten(1, 2)[:, :length])

    def step(
        self, states: Float[Tensor, "rows new d_model"], context: DecodingContext
    ) -> Float[Tensor, "rows new d_model"]:
        """Computes attention from each new token to itself and to the last `neighbours` tokens before it."""
        place_from_end = context.visible.flip(-1).cumsum(-1).flip(-1)
        visible = context.visible & (place_from_end <= self.spec.neighbours + 1)
        return super().step(states, context._replace(visible=visible))


def _windows(
    states: Float[Tensor, "batch heads length features"], width: int, step: int
) -> Float[Tensor, "windows heads width features"]:
    """Cuts out every window of `width` positions, `step` apart; each becomes a separate sentence."""
    return states.unfold(2, width, step).permute(0, 2, 1, 4, 3).flatten(0, 1)
