"""What the machine is told before work begins: device, threads, memory, repeatable bits."""

import contextlib
import ctypes
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

__all__ = [
    "choose_device",
    "compile_on_gpu",
    "count_cores",
    "describe_environment",
    "flush_subnormals",
    "has_fast_bfloat16",
    "is_out_of_memory",
    "keep_freed_memory",
    "processor_name",
    "set_threads",
    "training_numerics",
    "use_deterministic_algorithms",
    "use_gpu",
]

OUT_OF_MEMORY = (
    "can't allocate memory",  # torch on a CPU
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUDA error: out of memory",
    "Cuda failure 2 'out of memory'",  # NCCL
    "Failed to CUDA calloc",  # NCCL
)

AMPERE = (8, 0)  # the first of NVIDIA's to multiply bfloat16

# Parameters of glibc's mallopt.
ONE_ARENA, NEVER_MAP, NEVER_TRIM = (-8, 1), (-4, 0), (-1, 2**31 - 1)


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one, and `cuda:1` the second from now on; a `ValueError` for what is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"--device {name}: choose auto, cpu or cuda, or cuda:1 for the second GPU") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"--device {name}: choose auto, cpu or cuda")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"--device {name}: torch {torch.__version__} sees no GPU here; use --device cpu")
        if device.index is not None:
            use_gpu(device.index)
    return device


def use_gpu(number: int) -> None:
    """Makes a GPU the one that this process works on; a `ValueError` where there are not so many."""
    if number >= torch.cuda.device_count():
        raise ValueError(
            f"there is no GPU {number} here: they are counted from 0, and there are {torch.cuda.device_count()}"
        )
    torch.cuda.set_device(number)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether products in bfloat16 are faster there than in float32: on a processor without them, they are slower.

    With AVX-512 alone, as where a virtual machine hides AMX, they are half as fast on Intel's processors.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= AMPERE
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    if "Intel" in capabilities.get("cpu_name", ""):
        return bool(capabilities.get("amx_bf16", False))
    return bool(capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False))


def is_out_of_memory(error: Exception) -> bool:
    """Returns whether memory was refused: by torch, Python, NumPy, or a library that raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(text in str(error) for text in OUT_OF_MEMORY)


def set_threads(threads: int | None) -> None:
    """How many threads compute; None leaves it to torch: one a core."""
    if threads is not None:
        torch.set_num_threads(threads)


def keep_freed_memory() -> None:
    """Has the C library keep freed memory instead of handing it back to the system.

    By default it maps each large block anew and the kernel clears every page of it, at each step again: a tenth to a
    half of a small model's training on a CPU. Where the library is not glibc, nothing happens.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL("libc.so.6")
    for parameter, value in (ONE_ARENA, NEVER_MAP, NEVER_TRIM):
        library.mallopt(parameter, value)


def flush_subnormals() -> None:
    """Has a CPU take numbers below 1e-38 for 0: it is slow with them.

    In force in this thread, and in those that torch starts from it later: to be called before it computes anything.
    """
    torch.set_flush_denormal(True)


@contextlib.contextmanager
def training_numerics(device: torch.device, threads: int | None) -> Iterator[None]:
    """Sets what bit-identical and fast training needs, and restores what was set before.

    Deterministic algorithms, subnormal numbers as 0 and, where given, the number of threads.
    """
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    mode, before = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    flushed = float(torch.tensor(1e-40) * 1.0) == 0
    flush_subnormals()
    set_threads(threads)
    use_deterministic_algorithms(device)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)
        torch.set_num_threads(before)
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]


def count_cores() -> int:
    """The processor's cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_on_gpu(model: torch.nn.Module, device: torch.device, say: Callable[[str], None]) -> None:
    """Has torch fuse what is between the matrix products, on a GPU, where launching each alone would cost the most.

    The second shape makes the compiled code general: it is compiled twice and not for each shape.
    """
    if device.type != "cuda":
        return
    if not _can_compile():
        say(
            "slower than it could be: torch fuses operations for a GPU with a C compiler, Python's headers and Triton, "
            "on GPUs that Triton knows"
        )
        return
    model.compile()


def _can_compile() -> bool:
    """Whether what torch generates for a GPU can be built: its launcher is C and includes Python.h, the rest Triton."""
    from torch.utils._triton import has_triton

    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    return compiler is not None and headers and bool(has_triton())


def use_deterministic_algorithms(device: torch.device) -> None:
    """The same input gives the same bits on a CPU, on the same machine with the same threads.

    Nothing is asked of a GPU: the gradients of its attention add up in any order whatever is asked, and those of
    embeddings, which could be had in order, would take much longer.
    """
    if device.type == "cuda":
        return
    # As use_deterministic_algorithms(True, warn_only=True), which also imports the compiler: a second and more.
    torch.set_deterministic_debug_mode("warn")
    # The flag would also fill all fresh memory with NaN, to show reads of it, at each allocation.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def processor_name() -> str:
    """What the processor is called."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def describe_environment(device: torch.device) -> dict[str, Any]:
    """What the bits of a training depend on besides its recipe and data."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": processor_name(),
    }
