"""The training objective (section 5.4), a module that computes the loss of a model.

Because the model and its loss are in one module, FSDP can wrap both for sharded training.
"""

import math
from typing import Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn

from transduce.model.cross_entropy import Loss, Smoothing
from transduce.model.translation_model import TranslationModel
from transduce.settings import Spec


class RDrop(Spec):
    """R-Drop (Wu, Li et al. 2021), which penalises the divergence between two passes with different dropout."""

    kind: Literal["r_drop"] = "r_drop"
    strength: float = Field(default=5.0, gt=0, description="Weight α of the divergence in the loss.")
    share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Fraction of the pairs that pass through the model twice; smaller values save time.",
    )


class TrainingObjective(nn.Module):
    """Computes the cross-entropy of a model with label smoothing, summed over the target tokens of a micro-batch."""

    def __init__(self, model: TranslationModel, smoothing: Smoothing, regulariser: RDrop | None = None) -> None:
        super().__init__()
        self.model, self.smoothing, self.regulariser = model, smoothing, regulariser

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
        target_out: Int[Tensor, "batch target"],
    ) -> Loss:
        """Returns the smoothed and the unsmoothed loss in nats, summed over all target tokens except padding.

        The auxiliary mixture-of-experts loss, multiplied by the number of tokens, and the divergence term of R-Drop are
        added to the smoothed loss.
        """
        passed_twice = 0 if self.regulariser is None else math.ceil(self.regulariser.share * len(source))
        if passed_twice:  # the first pairs of the batch are repeated; their order is random
            source, target_in = (torch.cat([tokens, tokens[:passed_twice]]) for tokens in (source, target_in))
        states, penalty = self.model(source, source != self.model.spec.symbols.pad, target_in)
        loss = self._loss(states, target_out, passed_twice)
        if penalty is None:
            return loss
        tokens = (target_out != self.model.spec.symbols.pad).sum()
        return loss._replace(smoothed=loss.smoothed + penalty * tokens)

    def _loss(self, states: Tensor, target: Int[Tensor, "batch target"], passed_twice: int) -> Loss:
        """Computes the loss from the hidden states `[batch + passed_twice, target, d_model]`.

        The last `passed_twice` rows are the second pass of the first rows, for R-Drop.
        """
        readout, count, regulariser = self.model.readout, len(target), self.regulariser
        if regulariser is None:
            loss: Loss = readout.loss(states, target, self.smoothing)
            return loss
        passes = states[:passed_twice], states[count:]
        both: Loss = readout.consistent_loss(passes, target[:passed_twice], self.smoothing, regulariser.strength)
        if passed_twice == count:
            return both
        once: Loss = readout.loss(states[passed_twice:count], target[passed_twice:], self.smoothing)
        return Loss(both.smoothed + once.smoothed, both.unsmoothed + once.unsmoothed)
