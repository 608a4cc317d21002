"""Measures the cost of a computation while it runs.

The cost is the number of floating-point operations, the length of the longest chain of dependent matrix products, or
the memory that is kept for the backward pass.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.weak import WeakIdKeyDictionary

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution", "linear", "matmul")


def count_operations(run: Callable[[], object]) -> int:
    """Returns the number of floating-point operations in the matrix products of `run`, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def longest_chain(run: Callable[[], object]) -> int:
    """Returns the length of the longest chain of matrix products in `run` in which each depends on the previous one."""
    with torch.no_grad(), _DepthMode() as mode:
        run()
    return mode.deepest


def kept_for_backward(module: nn.Module, states: Tensor) -> int:
    """Returns the bytes of the activations that autograd keeps while `module` maps `states`, its parameters excluded.

    A tensor that several operations keep counts once.
    """
    parameters = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(states.requires_grad_())
    return sum(kept.values())


class _DepthMode(TorchDispatchMode):
    """Tracks, for every tensor, the number of matrix products on the longest path that leads to it."""

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
