"""Where a search over a model with a past of fixed size stands."""

from typing import NamedTuple

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from transduce.model.rows import Rows


class CarriedState(NamedTuple):
    """What each sentence has, such as the encoder's output, and what each row carries from word to word."""

    memory: tuple[Shaped[Tensor, "batch *rest"], ...]
    rows: Rows
    carried: tuple[Shaped[Tensor, "rows *rest"], ...]
    length: int = 0

    @classmethod
    def of(cls, memory: tuple[Tensor, ...], carried: tuple[Tensor, ...]) -> "CarriedState":
        """One row a sentence, before the first word."""
        batch = len(memory[0])
        return cls(memory, Rows.of(torch.arange(batch, device=memory[0].device), batch), carried)

    def pick(self, rows: Int[Tensor, " rows"]) -> "CarriedState":
        """The state of the chosen rows, whose sentences are in their order; a sentence without a row is gone."""
        sentences = self.rows.sentences[rows]
        kept = sentences.unique_consecutive()
        memory, batch = self.memory, self.rows.batch
        if len(kept) < batch:
            memory, batch = tuple(part[kept] for part in memory), len(kept)
            sentences = torch.searchsorted(kept, sentences)
        carried = tuple(part[rows] for part in self.carried)
        return self._replace(memory=memory, rows=Rows.of(sentences, batch), carried=carried)
