"""Adam (section 5.3) over one flat buffer.

Every parameter is a view of one long vector and every gradient of another. Clearing, measuring, clipping, reducing and
updating are then one operation each, however many matrices the model has.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from jaxtyping import Bool
from pydantic import Field
from torch import Tensor, nn

from transduce.settings import Spec

ALIGNMENT = 16  # elements: a matrix that begins at a cache line is multiplied faster


Decay = Annotated[float, Field(ge=0, lt=1)]


class Adam(Spec):
    """Kingma and Ba's, with the paper's constants."""

    kind: Literal["adam"] = "adam"
    betas: tuple[Decay, Decay] = (0.9, 0.98)
    epsilon: float = Field(default=1e-9, gt=0)


class FlatAdam:
    """Adam over all parameters of `model`, which it lays out in one buffer."""

    def __init__(self, model: nn.Module, spec: Adam) -> None:
        parameters = dict(model.named_parameters())
        offsets, end = {}, 0
        for name, parameter in parameters.items():
            offsets[name] = end
            end += -(-parameter.numel() // ALIGNMENT) * ALIGNMENT
        self.weights = next(iter(parameters.values())).new_zeros(end)
        self.gradient = torch.zeros_like(self.weights)
        for name, parameter in parameters.items():
            place = slice(offsets[name], offsets[name] + parameter.numel())
            self.weights[place] = parameter.detach().flatten()
            parameter.data = self.weights[place].view(parameter.shape)
            parameter.grad = self.gradient[place].view(parameter.shape)
        self.weights.grad = self.gradient
        self._adam = torch.optim.Adam([self.weights], betas=spec.betas, eps=spec.epsilon, fused=True)

    def clear(self) -> None:
        """Gradients to zero."""
        self.gradient.zero_()

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """One step of Adam at `rate` with the gradients as they are; nothing happens where they are not `finite`."""
        self._adam.param_groups[0]["lr"] = rate
        # What torch's loss scaler sets: the kernel looks at it, so that nobody has to wait for the device.
        self._adam.found_inf = (~finite).float()  # type: ignore[attr-defined]
        self._adam.step()

    def state(self) -> dict[str, Tensor]:
        """Adam's moments and step, by name."""
        return dict(self._adam.state[self.weights])

    def blank(self) -> dict[str, Tensor]:
        """A state of that shape, to be filled from another process."""
        moments = {name: torch.zeros_like(self.weights) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": torch.zeros(()), **moments}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from `state`; a `ValueError` where it belongs to another model."""
        if len(state["exp_avg"]) != len(self.weights):
            raise ValueError(
                f"the optimiser's state has {len(state['exp_avg']):,} numbers where this model needs "
                f"{len(self.weights):,}: it belongs to another model"
            )
        device = self.weights.device
        self._adam.state[self.weights] = {
            name: tensor.clone().to(device if tensor.ndim else tensor.device) for name, tensor in state.items()
        }
