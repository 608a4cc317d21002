"""Which hypothesis is whose: the rows of a search, and the rectangle in which attention sees them."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


class HypothesisRows(NamedTuple):
    """Hypotheses of several sentences: any number of each, side by side, in the order of the sentences.

    Attention works a sentence at a time. There the rows of a sentence stand next to each other in a rectangle of
    `batch` sentences × `width`, as if they were one sentence of `width` tokens; all else works on the rows alone.
    """

    sentences: Int[Tensor, " rows"]  # the sentence of each row
    places: Int[Tensor, " rows"]  # where in the rectangle, sentence by sentence, it stands
    batch: int
    width: int

    @classmethod
    def of(cls, sentences: Int[Tensor, " rows"], batch: int) -> "HypothesisRows":
        """The rows that belong to `sentences`, which are in order and less than `batch`."""
        ranks = torch.arange(len(sentences), device=sentences.device) - torch.searchsorted(sentences, sentences)
        width = int(ranks.max()) + 1
        return cls(sentences, sentences * width + ranks, batch, width)

    def spread(self, states: Shaped[Tensor, "rows new features"]) -> Shaped[Tensor, "batch slots features"]:
        """The rectangle with each row's states at its place, zeros at places without a row: slots are width × new."""
        rows, new, features = states.shape
        if rows < self.batch * self.width:
            states = states.new_zeros(self.batch * self.width, new, features).index_copy_(0, self.places, states)
        return states.reshape(self.batch, self.width * new, features)

    def collect(self, rectangle: Float[Tensor, "batch slots features"]) -> Float[Tensor, "rows new features"]:
        """Each row's states, from its place."""
        placed = rectangle.reshape(self.batch * self.width, -1, rectangle.shape[2])
        return placed if len(self.places) == len(placed) else placed[self.places]
