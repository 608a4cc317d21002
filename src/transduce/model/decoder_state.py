"""Where a search over a model stands: with a past that grows by a slot a token, or with one of fixed size."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from transduce.model.attention import Values
from transduce.model.attention_scores import Keys
from transduce.model.hypothesis_rows import HypothesisRows
from transduce.model.kv_cache import KeyValueCache, capacity_for

WAITED_FOR = {"cuda"}  # devices that a search does not ask what lives: it keeps its rectangle from look to look
SPARSE = 0.75  # the share of a state's sentences that have a row still, up to which the others are thrown out


class DecoderState(NamedTuple):
    """A part by sentence, and a part by row (a row is one hypothesis of a sentence).

    `ancestors` says which slots of its sentence's caches hold the tokens of a row; `cleared` is how many slots were
    left when those of no row were last thrown out. A step consumes its state: caches are written in place.
    """

    memory: tuple[tuple[Keys, Values], ...]
    visible: Bool[Tensor, "batch 1 source"]
    caches: tuple[KeyValueCache, ...]
    rows: HypothesisRows
    ancestors: Bool[Tensor, "rows slots"]
    length: int = 0
    cleared: int = 0

    def pick(self, rows: Int[Tensor, " rows"]) -> "DecoderState":
        """The state of the chosen rows, whose sentences are in their order.

        On a GPU as many rows as before are taken to be as many of each sentence as before: to check would be to wait.
        """
        sentences, ancestors = self.rows.sentences[rows], self.ancestors[rows]
        waited_for = sentences.device.type in WAITED_FOR
        if waited_for and len(sentences) == len(self.ancestors):
            return self._replace(ancestors=ancestors)
        kept = sentences.unique_consecutive()
        # Rows that do not fill their rectangle cost many small operations more in every step, which a GPU feels.
        if len(kept) < self.rows.batch and (waited_for or len(kept) <= SPARSE * self.rows.batch):
            memory = tuple((_of(keys, kept), _of(values, kept)) for keys, values in self.memory)
            chosen = HypothesisRows.of(torch.searchsorted(kept, sentences), len(kept))
            picked = self._replace(memory=memory, visible=self.visible[kept], rows=chosen, ancestors=ancestors)
            return picked._cleared(kept)
        picked = self._replace(rows=HypothesisRows.of(sentences, self.rows.batch), ancestors=ancestors)
        if ancestors.shape[1] + picked.rows.width <= capacity_for(self.cleared):
            return picked
        return picked._cleared(torch.arange(self.rows.batch, device=sentences.device))

    def masks(self, new: int) -> tuple[Bool[Tensor, "batch target more"], Bool[Tensor, "rows more"]]:
        """Over the caches with `new` tokens a row: what each new token may look at, and whose each slot is."""
        rows, ancestors = self.rows, self.ancestors
        alone = torch.eye(rows.width, dtype=torch.bool, device=ancestors.device)
        before = torch.ones(new, new, dtype=torch.bool, device=ancestors.device).tril()
        own = torch.kron(alone, before).expand(rows.batch, -1, -1)
        visible = torch.cat([rows.spread(ancestors.unsqueeze(1).expand(-1, new, -1)), own], dim=2)
        mine = alone.repeat_interleave(new, dim=1)[rows.places - rows.sentences * rows.width]
        return visible, torch.cat([ancestors, mine], dim=1)

    def _cleared(self, sentences: Int[Tensor, " batch"]) -> "DecoderState":
        """With caches of `sentences` alone, which the rest is of already, and of the slots that hold a row's tokens."""
        needed = self.rows.spread(self.ancestors.unsqueeze(1)).any(1)
        most = int(needed.sum(1).max())
        slots = needed.byte().argsort(dim=1, descending=True, stable=True)[:, :most]
        return self._replace(
            caches=tuple(cache.keep(sentences, slots) for cache in self.caches),
            ancestors=self.ancestors.take_along_dim(slots[self.rows.sentences], dim=1),
            cleared=most,
        )


class RecurrentState(NamedTuple):
    """What each sentence has, such as the encoder's output, and what each row carries from token to token."""

    memory: tuple[Shaped[Tensor, "batch *rest"], ...]
    rows: HypothesisRows
    carried: tuple[Shaped[Tensor, "rows *rest"], ...]
    length: int = 0

    @classmethod
    def of(cls, memory: tuple[Tensor, ...], carried: tuple[Tensor, ...]) -> "RecurrentState":
        """One row a sentence, before the first token."""
        batch = len(memory[0])
        return cls(memory, HypothesisRows.of(torch.arange(batch, device=memory[0].device), batch), carried)

    def pick(self, rows: Int[Tensor, " rows"]) -> "RecurrentState":
        """The state of the chosen rows, whose sentences are in their order; a sentence without a row is gone."""
        sentences, carried = self.rows.sentences[rows], tuple(part[rows] for part in self.carried)
        if sentences.device.type in WAITED_FOR and len(sentences) == len(self.rows.sentences):
            return self._replace(carried=carried)  # as of a `DecoderState`
        kept = sentences.unique_consecutive()
        memory, batch = self.memory, self.rows.batch
        if len(kept) < batch:
            memory, batch = tuple(part[kept] for part in memory), len(kept)
            sentences = torch.searchsorted(kept, sentences)
        return self._replace(memory=memory, rows=HypothesisRows.of(sentences, batch), carried=carried)


def _of(part: Tensor, sentences: Int[Tensor, " kept"]) -> Tensor:
    """The keys or values of the chosen sentences, in rows or columns as they were."""
    return part.index_select(0, sentences) if part.is_contiguous() else part.mT.index_select(0, sentences).mT
