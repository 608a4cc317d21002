"""The numbers that training computes in: master weights are float32 always; products may be narrower."""

import contextlib
from typing import Any

import torch

from transduce.runtime.device import has_fast_bfloat16


class Precision:
    """Autocast to a precision, and float16's loss scale, which keeps small gradients from vanishing."""

    grows_after = 2000  # steps without an overflow
    least = 1.0  # below it nothing would be gained: what overflows there is no number in float32 either

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "auto":
            name = "bfloat16" if has_fast_bfloat16(device) else "float32"
        self.name, self.device = name, device
        self.scale = 2.0**15 if name == "float16" else 1.0
        self.steady = 0

    def cast(self) -> contextlib.AbstractContextManager[Any]:
        """Within it, products run in the chosen precision."""
        if self.name == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    @property
    def lowering(self) -> bool:
        """Whether an overflow only lowers the scale, and says nothing about the training."""
        return self.name == "float16" and self.scale > self.least

    def scale_by(self, finite: bool) -> None:
        """Moves float16's scale by whether a step's gradients were finite."""
        self.steady = self.steady + 1 if finite else 0
        if not finite:
            self.scale = max(self.scale / 2, self.least)
        elif self.steady % self.grows_after == 0:
            self.scale *= 2
