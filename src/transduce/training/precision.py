"""The precision of training: weights are float32; products may be bfloat16 or float16."""

import contextlib
from typing import Any

import torch

from transduce.runtime.device import has_fast_bfloat16


class Precision:
    """Autocast to a precision; in float16 also a loss scale, which keeps small gradients from vanishing."""

    growth_interval = 2000  # steps in a row without an overflow after which the scale doubles
    min_scale = 1.0  # a lower scale would lose small gradients; if 1 overflows too, the model or its loss is the cause

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "auto":
            name = "bfloat16" if has_fast_bfloat16(device) else "float32"
        self.name, self.device = name, device
        self.scale = 2.0**15 if name == "float16" else 1.0
        self.finite_steps = 0  # in a row

    def cast(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context in which products are computed in this precision."""
        if self.name == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    @property
    def can_lower_scale(self) -> bool:
        """Whether the loss scale can still be lowered; an overflow is then not a sign of divergence."""
        return self.name == "float16" and self.scale > self.min_scale

    def update_scale(self, finite: bool) -> None:
        """Halves the loss scale if the gradient was not `finite`; doubles it after many finite gradients in a row."""
        self.finite_steps = self.finite_steps + 1 if finite else 0
        if not finite:
            self.scale = max(self.scale / 2, self.min_scale)
        elif self.finite_steps % self.growth_interval == 0:
            self.scale *= 2
