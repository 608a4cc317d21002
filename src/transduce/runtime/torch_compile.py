"""`compile_on_gpu`: torch's own compiler, if there is a GPU and a C compiler for it."""

import logging
import os
import shutil
import sysconfig
from pathlib import Path

import torch

_log = logging.getLogger("transduce")


def compile_on_gpu(model: torch.nn.Module, device: torch.device) -> None:
    """Makes torch fuse the operations between matrix multiplications on a GPU, where launching them separately costs
    most.

    torch compiles twice: when it meets a second shape, it compiles code for all shapes. If torch cannot compile, a
    message is logged and the model stays as it is.
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
    """Whether torch can build code for a GPU: a launcher in C that includes Python.h, and Triton kernels."""
    from torch.utils._triton import has_triton

    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    return compiler is not None and headers and bool(has_triton())
