"""Self-attention restricted to neighbouring positions (section 4), with a cost of O(r · n · d) instead of O(n² · d)."""

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
    """Each position attends to itself and up to `neighbours` positions on each side; in the decoder, only before it.

    The neighbourhood size r in the paper includes the position itself and both sides, so r = 2 · `neighbours` + 1.
    """

    kind: Literal["local_attention"] = "local_attention"
    neighbours: int = Field(
        ge=1,
        description="Number of positions attended to on each side.",
    )

    def multiplications(self, d_model: int, visible: int | float, *, causal: bool = False) -> int | float:
        """Counts the multiplications for one token in a sentence of `visible` tokens."""
        return super().multiplications(d_model, min(visible, (1 if causal else 2) * self.neighbours + 1))

    def build(self, d_model: int) -> "NeighbourAttention":
        """Builds the module for hidden states of width `d_model`."""
        return NeighbourAttention(self, d_model)


class NeighbourAttention(MultiHeadAttention):
    """Multi-head attention in which each position attends only to nearby positions.

    Its memory and time grow with length × neighbours.
    """

    spec: LocalAttention

    def mix(
        self, states: Float[Tensor, "batch length d_model"], visible: Visible | None, causal: bool
    ) -> Float[Tensor, "batch length d_model"]:
        """Applies local attention to whole sentences, which it divides into blocks of `neighbours` positions.

        The window of a block consists of the block itself, the block before it and, unless `causal`, the block after
        it. A mask hides those positions of the window that are too far away.
        """
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
        # `distance` [neighbours width] is the distance from each position of a block to each position of its window. A
        # position may always attend to itself, even if it is padding, so that every query has a key.
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
        """Applies local attention to the new tokens.

        Each of them attends to itself and to the last `neighbours` tokens before it.
        """
        place_from_end = context.visible.flip(-1).cumsum(-1).flip(-1)
        visible = context.visible & (place_from_end <= self.spec.neighbours + 1)
        return super().step(states, context._replace(visible=visible))


def _windows(
    states: Float[Tensor, "batch heads length features"], width: int, step: int
) -> Float[Tensor, "windows heads width features"]:
    """Extracts the windows of `width` positions that begin at every multiple of `step`.

    Each window becomes an entry of its own along the batch dimension.
    """
    return states.unfold(2, width, step).permute(0, 2, 1, 4, 3).flatten(0, 1)
