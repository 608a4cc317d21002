"""Mixed-precision training: matrix multiplications in bfloat16 or float16, with the weights in float32."""

import contextlib
from typing import Any

import torch

from transduce.runtime.device import has_fast_bfloat16


class Precision:
    """The precision in which a model is trained.

    In float16, the precision includes a loss scale, which keeps small gradients from underflowing to zero.
    """

    growth_interval = 2000  # number of consecutive steps without an overflow after which the loss scale is doubled
    # A smaller loss scale would lose small gradients. If gradients overflow even at 1, the cause is the model or its
    # loss.
    min_scale = 1.0

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "auto":
            name = "bfloat16" if has_fast_bfloat16(device) else "float32"
        self.name, self.device = name, device
        self.scale = 2.0**15 if name == "float16" else 1.0
        self.finite_steps = 0  # number of consecutive steps with a finite gradient

    def cast(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context manager that enables autocasting to this precision."""
        if self.name == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    @property
    def can_lower_scale(self) -> bool:
        """Whether the loss scale can still be lowered. If it can, an overflow is not a sign of divergence."""
        return self.name == "float16" and self.scale > self.min_scale

    def update_scale(self, finite: bool) -> None:
        """Halves the loss scale if the gradient was not `finite`.

        Doubles it after `growth_interval` consecutive steps with a finite gradient.
        """
        self.finite_steps = self.finite_steps + 1 if finite else 0
        if not finite:
            self.scale = max(self.scale / 2, self.min_scale)
        elif self.finite_steps % self.growth_interval == 0:
            self.scale *= 2
