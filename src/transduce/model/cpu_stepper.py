"""The fastest stepper for a model on a CPU: compiled where the model and the installation allow it."""

from collections.abc import Callable
from typing import Any

import torch

from transduce.model.attention import Attention
from transduce.model.attention_scores import Dot, ScaledDot
from transduce.model.feed_forward import FeedForward
from transduce.model.int8 import quantise
from transduce.model.transformer import TransformerModel
from transduce.model.translation_model import TranslationModel
from transduce.runtime.numba_check import has_numba


def cpu_stepper(model: TranslationModel, *, int8: bool, report: Callable[[str], None] = lambda _message: None) -> Any:
    """Returns a stepper for the model, which does not change; later changes of its weights are not followed.

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
    return dot_products and is_covered_network and is_float32 and model.next_word is None
