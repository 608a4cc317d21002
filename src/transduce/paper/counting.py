"""Costs of a computation, counted while it runs: operations, and products that depend on each other."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.weak import WeakIdKeyDictionary

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution", "linear", "matmul")


def count_operations(run: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in `run`, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def longest_chain(run: Callable[[], object]) -> int:
    """Length of the longest chain of matrix products in `run` in which each product needs the previous one."""
    with torch.no_grad(), _DepthMode() as mode:
        run()
    return mode.deepest


class _DepthMode(TorchDispatchMode):
    """Counts for every tensor the matrix products on the longest path to it."""

    def __init__(self) -> None:
        super().__init__()
        self.depths: Any = WeakIdKeyDictionary()
        self.deepest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        inputs = tree_leaves((args, kwargs))
        before = max((self.depths.get(leaf, 0) for leaf in inputs if isinstance(leaf, Tensor)), default=0)
        depth = before + (func.overloadpacket.__name__ in PRODUCTS)
        for leaf in tree_leaves(outputs):
            if isinstance(leaf, Tensor):
                self.depths[leaf] = max(depth, self.depths.get(leaf, 0))
        self.deepest = max(self.deepest, depth)
        return outputs
