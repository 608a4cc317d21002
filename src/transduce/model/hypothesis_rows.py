"""The rows of a search, one for each hypothesis, and the rectangle in which attention reads them."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


class HypothesisRows(NamedTuple):
    """Hypotheses of several sentences: any number for each sentence, in the order of the sentences.

    Attention computes by sentence. It reads the rows of a sentence side by side in a rectangle of `batch` sentences ×
    `width` places, as if they were one sentence of `width` tokens. Everything else computes on rows.
    """

    sentences: Int[Tensor, " rows"]  # the sentence of each row
    places: Int[Tensor, " rows"]  # the place of each row in the rectangle, counted sentence by sentence
    batch: int
    width: int

    @classmethod
    def of(cls, sentences: Int[Tensor, " rows"], batch: int) -> "HypothesisRows":
        """Returns the layout of rows whose `sentences` are sorted and less than `batch`."""
        # The number of each row within its sentence, from 0.
        ranks = torch.arange(len(sentences), device=sentences.device) - torch.searchsorted(sentences, sentences)
        width = int(ranks.max()) + 1
        return cls(sentences, sentences * width + ranks, batch, width)

    def to_rectangle(self, states: Shaped[Tensor, "rows new features"]) -> Shaped[Tensor, "batch width_new features"]:
        """Returns the rectangle with each row's states at its place, and zeros at places without a row."""
        rows, new, features = states.shape
        if rows < self.batch * self.width:
            states = states.new_zeros(self.batch * self.width, new, features).index_copy_(0, self.places, states)
        return states.reshape(self.batch, self.width * new, features)

    def from_rectangle(
        self, rectangle: Float[Tensor, "batch width_new features"]
    ) -> Float[Tensor, "rows new features"]:
        """Returns each row's states from the rectangle, the inverse of `to_rectangle`."""
        places = rectangle.reshape(self.batch * self.width, -1, rectangle.shape[2])
        return places if len(self.places) == len(places) else places[self.places]
