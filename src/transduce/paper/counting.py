"""What a computation costs, counted while it runs: operations, and products that wait for each other."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["counted", "longest_chain"]

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution", "linear", "matmul")


def counted(run: Callable[[], object]) -> int:
    """The floating-point operations of the products of matrices in `run`, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def longest_chain(run: Callable[[], object]) -> int:
    """The most products of matrices in `run` of which each waits for the one before."""
    with torch.no_grad(), _Depth() as depth:
        run()
    return depth.deepest


class _Depth(TorchDispatchMode):
    """Counts for every tensor how many products lie on the longest way to it."""

    def __init__(self) -> None:
        super().__init__()
        self.depths: Any = WeakIdKeyDictionary()
        self.deepest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        inputs = tree_leaves((args, kwargs))
        before = max((self.depths.get(each, 0) for each in inputs if isinstance(each, Tensor)), default=0)
        depth = before + (func.overloadpacket.__name__ in PRODUCTS)
        for each in tree_leaves(given):
            if isinstance(each, Tensor):
                self.depths[each] = max(depth, self.depths.get(each, 0))
        self.deepest = max(self.deepest, depth)
        return given
