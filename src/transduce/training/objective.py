"""The training objective (section 5.4): a model and its loss in one module, which sharding wraps."""

from jaxtyping import Int
from torch import Tensor, nn

from transduce.model import TranslationModel
from transduce.model.cross_entropy import Loss, Smoothing


class LabelSmoothing(nn.Module):
    """Cross-entropy against targets smoothed by ε, summed over the tokens of a micro-batch."""

    def __init__(self, model: TranslationModel, smoothing: Smoothing) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target_in: Int[Tensor, "batch target"],
        target_out: Int[Tensor, "batch target"],
    ) -> Loss:
        """Returns the sums of the smoothed and the unsmoothed loss over all tokens but padding, in nats.

        The penalty of a mixture of experts is added to the smoothed loss, once a token.
        """
        visible = source != self.model.spec.symbols.pad
        states, penalty = self.model(source, visible, target_in)
        loss: Loss = self.model.readout.loss(states, target_out, self.smoothing)
        if penalty is None:
            return loss
        tokens = (target_out != self.model.spec.symbols.pad).sum()
        return loss._replace(smoothed=loss.smoothed + penalty * tokens)
