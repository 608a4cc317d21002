"""What training minimises (section 5.4): the one module that sharding wraps; on a GPU the model in it is compiled."""

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
        """Sums of the smoothed and the unsmoothed loss, in nats; padding counts nothing."""
        visible = source != self.model.spec.symbols.pad
        states, penalty = self.model(source, visible, target_in)
        loss: Loss = self.model.readout.loss(states, target_out, self.smoothing)
        if penalty is None:
            return loss
        tokens = (target_out != self.model.spec.symbols.pad).sum()
        return loss._replace(smoothed=loss.smoothed + penalty * tokens)
