"""Compiles models with PyTorch's compiler, if there is a GPU and the compiler's requirements are met."""

import logging
import os
import shutil
import sysconfig
from pathlib import Path

import torch

_log = logging.getLogger("transduce")


def compile_on_gpu(model: torch.nn.Module, device: torch.device) -> None:
    """Compiles `model` in place if `device` is a GPU, to fuse the operations between matrix multiplications.

    Fusing them matters most on a GPU, where every separate operation has to be launched. PyTorch compiles the model
    twice: once for the first shape, and once more for all shapes when it encounters a second shape. If PyTorch cannot
    compile, a message is logged and the model is left unchanged.
    """
    if device.type != "cuda":
        return
    if not _can_compile():
        _log.info(
            "training is slower than it could be: to fuse operations for a GPU, torch needs a C compiler, "
            "Python's headers, Triton and a GPU that Triton supports"
        )
        return
    model.compile()


def _can_compile() -> bool:
    """Returns True if PyTorch can compile code for a GPU.

    This requires Triton, a C compiler and Python's headers, because the kernels are launched by a C program that
    includes Python.h.
    """
    from torch.utils._triton import has_triton

    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    return compiler is not None and headers and bool(has_triton())
