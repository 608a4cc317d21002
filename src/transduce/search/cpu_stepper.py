"""Chooses the fastest stepper for a model on a CPU, which is compiled if the model and the installation allow it.

A compiled stepper refers to some weights of the model and copies the others, so it must be rebuilt when a weight
changes (see `WeightsRecord`).
"""

import logging
import operator
from typing import Any

import torch
from torch import Tensor, nn

from transduce.model.attention import Attention
from transduce.model.attention_scores import Dot, ScaledDot
from transduce.model.feed_forward import FeedForward
from transduce.model.int8 import quantise
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model.translation_model import Symbols, TranslationModel, Vocabulary
from transduce.runtime.compilation_announcement import announce_compilation
from transduce.runtime.device import has_numba
from transduce.runtime.extras import install_command
from transduce.search.beam import Decoding, beam_search
from transduce.search.stepper import SearchProblem, Stepper

_log = logging.getLogger("transduce")


def cpu_stepper(model: TranslationModel, *, int8: bool) -> Any:
    """Builds the fastest stepper for the current weights of a model; when the weights change, it must be built again.

    A Transformer with float32 weights gets a compiled stepper if there is compiled code for all its parts and numba is
    installed; for int8, the processor must also have the necessary instructions. Otherwise the stepper is the model
    itself, or a quantised copy of it for int8. If int8 could be compiled but numba is not installed, a warning is
    logged.
    """
    if isinstance(model, TransformerModel) and is_covered(model):
        if has_numba():
            from transduce.model.compiled.compilation import uncached
            from transduce.model.compiled.products import has_int8
            from transduce.model.compiled.stepper import CompiledStepper

            announce_compilation(lambda: not uncached)
            if has_int8() or not int8:
                return CompiledStepper(model, int8=int8)
        elif int8:
            _log.warning(f"numba is missing, so int8 is slower than it could be: {install_command('int8')}")
    return quantise(model) if int8 else model


def is_compiled(stepper: Any) -> bool:
    """Returns True if the stepper is compiled.

    Each search with a compiled stepper runs in one thread and does not hold the GIL while it computes.
    """
    return not isinstance(stepper, TranslationModel)


def is_covered(model: TransformerModel) -> bool:
    """Returns True if there is compiled code for all parts of the model, on its device and in its precision."""
    network, attentions = model.spec.feed_forward, (model.spec.mixer, model.spec.cross)
    dot_products = all(
        isinstance(spec, Attention) and isinstance(spec.compatibility, ScaledDot | Dot) for spec in attentions
    )
    is_covered_network = isinstance(network, FeedForward) and network.activation == "relu"
    weight = model.readout.weight
    # The parameters of a sharded model have a different type.
    is_float32 = type(weight.data) is torch.Tensor and weight.is_cpu and weight.dtype == torch.float32
    are_parts_unchanged = all(map(_is_unchanged, model.modules()))
    return dot_products and is_covered_network and is_float32 and are_parts_unchanged and model.next_word is None


def _is_unchanged(part: nn.Module) -> bool:
    """Returns True if a module computes what its class defines, so it is not pruned, parametrised or quantised."""
    has_hooks = bool(part._forward_hooks or part._forward_pre_hooks)
    return not has_hooks and type(part).__module__.startswith(("transduce.model.", "torch.nn.modules."))


class WeightsRecord:
    """Records the tensors and modules of a model at one moment, so that later changes can be detected.

    The record includes the address and the version of each tensor. It detects a new storage (`share_memory`, `to`,
    `data =`, `load_state_dict(assign=True)`, or sending a tensor with `multiprocessing`), a write into a tensor
    (`load_state_dict`, or a step of an optimiser), a module or tensor that is added, removed or replaced, and hooks
    (pruning, quantisation). It cannot detect a write through `tensor.data`, because torch does not increase the
    tensor's version then.
    """

    def __init__(self, model: nn.Module) -> None:
        parts = list(model.modules())
        self._children = [part._modules for part in parts if part._modules]
        self._named = [named for part in parts for named in (part._parameters, part._buffers) if named]
        self._hooks = [hooks for part in parts for hooks in (part._forward_pre_hooks, part._forward_hooks)]
        self._objects = self._current_objects()
        tensors = [each for each in self._objects if isinstance(each, Tensor)]
        self._tensors = tensors
        self._counted = [tensor for tensor in tensors if not tensor.is_inference()]
        self._addresses, self._versions = self._current_states()

    def is_current(self) -> bool:
        """Returns True if nothing has changed since the record was made.

        This takes about 30 µs for a model of 100 tensors.
        """
        objects = self._current_objects()
        are_same = len(objects) == len(self._objects) and all(map(operator.is_, objects, self._objects))
        return are_same and self._current_states() == (self._addresses, self._versions)

    def _current_objects(self) -> list[object]:
        """Returns a list of all modules and tensors, followed by True or False for whether there are hooks."""
        children = [child for named in self._children for child in named.values()]
        return [*children, *[tensor for named in self._named for tensor in named.values()], any(self._hooks)]

    def _current_states(self) -> tuple[list[int], list[int]]:
        """Returns the address of each tensor, and the version of each tensor that has one."""
        return [tensor.data_ptr() for tensor in self._tensors], [tensor._version for tensor in self._counted]


def compile_searches(*, int8: bool) -> None:
    """Compiles the searches in float32 or in int8, or loads them from the cache.

    To do so, it searches with a tiny model.
    """
    attention = Attention(heads=1, d_k=2, d_v=2)
    spec = Transformer(
        d_model=4,
        encoder_layers=1,
        decoder_layers=1,
        mixer=attention,
        cross=attention,
        feed_forward=FeedForward(d_ff=4),
    )
    model = spec.build(Vocabulary(source=8, target=8)).eval()
    stepper = cpu_stepper(model, int8=int8)
    if is_compiled(stepper):
        compile_search(stepper, spec.symbols)
        source = torch.tensor([[3]])
        with torch.inference_mode():  # this step compiles what searches with wrapped steppers need
            stepper.step(source, stepper.start(source, source > 0, 1))


def compile_search(stepper: Stepper, symbols: Symbols) -> None:
    """Searches for a single token with a compiled stepper.

    This makes numba compile the search, or load it from its cache.
    """
    source, banned = torch.tensor([[symbols.end]]), (symbols.pad, symbols.begin)
    problem = SearchProblem(source, source >= 0, torch.tensor([1]), symbols.begin, symbols.end, banned)
    with torch.inference_mode():
        beam_search(stepper, problem, Decoding(), compiled=True)
