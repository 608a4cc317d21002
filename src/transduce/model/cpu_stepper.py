"""The fastest stepper for a model on a CPU: compiled where the model and the installation allow it.

A compiled stepper reads some weights at their addresses and has copies of the others, so that it must be made again
when a weight of the model changes (`WeightsRecord`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from transduce.model.attention import Attention
from transduce.model.attention_scores import Dot, ScaledDot
from transduce.model.feed_forward import FeedForward
from transduce.model.int8 import quantise
from transduce.model.transformer import TransformerModel
from transduce.model.translation_model import TranslationModel
from transduce.runtime.numba_check import has_numba


def cpu_stepper(model: TranslationModel, *, int8: bool, report: Callable[[str], None] = lambda _message: None) -> Any:
    """Returns a stepper for the model as it is now: later changes of its weights are not followed.

    A Transformer in float32 whose parts have compiled code gets that code, where numba is installed. Otherwise the
    stepper is the model, or its copy in int8. `report` is called with a message where numba is missing for int8.
    """
    if isinstance(model, TransformerModel) and is_covered(model):
        if has_numba():
            from transduce.model.compiled.products import has_int8
            from transduce.model.compiled.stepper import CompiledStepper

            if has_int8() or not int8:
                return CompiledStepper(model, int8=int8)
        elif int8:
            report("numba is missing, so int8 is slower than it could be: install transduce[int8]")
    return quantise(model) if int8 else model


def is_compiled(stepper: Any) -> bool:
    """Returns whether a stepper is compiled: it then computes without Python's lock, in one thread a search."""
    return not isinstance(stepper, TranslationModel)


def is_covered(model: TransformerModel) -> bool:
    """Returns whether there is compiled code for every part of the model, on this device and in this precision."""
    network, attentions = model.spec.feed_forward, (model.spec.mixer, model.spec.cross)
    dot_products = all(
        isinstance(part, Attention) and isinstance(part.compatibility, ScaledDot | Dot) for part in attentions
    )
    is_covered_network = isinstance(network, FeedForward) and network.activation == "relu"
    weight = model.readout.weight
    # The parameters of a sharded model are of another type.
    is_float32 = type(weight.data) is torch.Tensor and weight.is_cpu and weight.dtype == torch.float32
    are_parts_unchanged = all(map(_is_unchanged, model.modules()))
    return dot_products and is_covered_network and is_float32 and are_parts_unchanged and model.next_word is None


def _is_unchanged(part: nn.Module) -> bool:
    """Returns whether a part computes what its class does: it was neither pruned, parametrised nor quantised."""
    has_hooks = bool(part._forward_hooks or part._forward_pre_hooks)
    return not has_hooks and type(part).__module__.startswith(("transduce.model.", "torch.nn.modules."))


class WeightsRecord:
    """The tensors and parts of a model at one time, with the address and the version of each tensor.

    It notices a new storage (`share_memory`, `to`, `data =`, `load_state_dict(assign=True)`, what `multiprocessing`
    does to a tensor that it sends), a write into a tensor (`load_state_dict`, a step of an optimiser) and a part that
    another one has replaced (pruning, quantising). It cannot notice a write through `tensor.data`, for which torch
    counts no version.
    """

    def __init__(self, model: nn.Module) -> None:
        parts = list(model.modules())
        self._parts = [(part._modules, name, child) for part in parts for name, child in part._modules.items()]
        self._tensors = [
            (tensors, name, tensor, tensor.data_ptr(), None if tensor.is_inference() else tensor._version)
            for part in parts
            for tensors in (part._parameters, part._buffers)
            for name, tensor in tensors.items()
            if tensor is not None
        ]

    def is_current(self) -> bool:
        """Returns whether nothing has changed; takes some tens of microseconds."""
        for parts, name, child in self._parts:
            if parts.get(name) is not child:
                return False
        for tensors, name, tensor, address, version in self._tensors:
            if tensors.get(name) is not tensor or tensor.data_ptr() != address:
                return False
            if version is not None and tensor._version != version:
                return False
        return True
