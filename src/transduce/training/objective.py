"""The training objective (section 5.4): a model and its loss in one module, which sharding wraps."""

from typing import Literal

from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn

from transduce.model import TranslationModel
from transduce.model.cross_entropy import Loss, Smoothing
from transduce.settings import Spec


class RDrop(Spec):
    """R-Drop (Wu, Li et al. 2021): draws the predictions of two passes together."""

    kind: Literal["r_drop"] = "r_drop"
    strength: float = Field(default=5.0, gt=0, description="Weight of the divergence, α.")


class LabelSmoothing(nn.Module):
    """Cross-entropy against targets smoothed by ε, summed over the tokens of a micro-batch."""

    def __init__(self, model: TranslationModel, smoothing: Smoothing, regulariser: RDrop | None = None) -> None:
        super().__init__()
        self.model, self.smoothing, self.regulariser = model, smoothing, regulariser

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
        target_out: Int[Tensor, "batch target"],
    ) -> Loss:
        """Returns the sums of the smoothed and the unsmoothed loss over all tokens but padding, in nats.

        The penalty of a mixture of experts is added to the smoothed loss, once a token, and so is that of R-Drop.
        """
        if self.regulariser is not None:
            source, target_in = source.repeat(2, 1), target_in.repeat(2, 1)
        visible = source != self.model.spec.symbols.pad
        states, penalty = self.model(source, visible, target_in)
        loss = self._loss(states, target_out)
        if penalty is None:
            return loss
        tokens = (target_out != self.model.spec.symbols.pad).sum()
        return loss._replace(smoothed=loss.smoothed + penalty * tokens)

    def _loss(self, states: Tensor, target: Int[Tensor, "batch target"]) -> Loss:
        """Returns the loss of states `[passes · batch, target, d_model]`."""
        readout = self.model.readout
        if self.regulariser is None:
            single: Loss = readout.loss(states, target, self.smoothing)
            return single
        first, second = states.chunk(2)
        both: Loss = readout.consistent_loss((first, second), target, self.smoothing, self.regulariser.strength)
        return both
