"""Chooses the device, and sets up threads, memory allocation and deterministic numerics."""

import contextlib
import ctypes
import gc
import os
import platform
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

AMPERE = (8, 0)  # compute capability of the first NVIDIA GPUs with hardware support for bfloat16

# Limits on the number of threads. More threads than cores are allowed, so that results of a larger machine can be
# reproduced, but not arbitrarily many, because OpenMP crashes if it cannot start its threads.
MIN_LIMIT, THREADS_PER_CORE = 256, 4

# Parameters of glibc's `mallopt`, each with its value.
ONE_ARENA, NEVER_MAP, NEVER_TRIM = (-8, 1), (-4, 0), (-1, 2**31 - 1)


def gpu_memory(device: torch.device) -> int:
    """Returns the total memory of a GPU in bytes, including memory in use."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def choose_device(name: str) -> torch.device:
    """Returns the device with the given name: `auto`, `cpu`, `cuda`, or a particular GPU such as `cuda:1`.

    `auto` chooses a GPU if there is one, and the CPU otherwise. A GPU with a number also becomes PyTorch's current
    device. Raises ValueError if the device does not exist.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device {name}: choose auto, cpu or cuda, or cuda:1 for the second GPU") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name}: choose auto, cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name}: torch {torch.__version__} sees no GPU here; use the device cpu")
    if device.type == "cuda" and device.index is not None:
        if device.index >= (count := torch.cuda.device_count()):
            raise ValueError(f"device {name}: there are {count} GPUs here, and the first is cuda:0")
        torch.cuda.set_device(device.index)
    return device


def set_up_device(name: str, threads: int | None = None, precision: str | None = None) -> torch.device:
    """Sets up the process of a command for computing, and returns the device with the given name.

    The name is interpreted as by `choose_device`, except that `auto` means the CPU if `precision` is int8. Also sets
    the number of threads and configures the memory allocator.

    All existing objects are excluded from garbage collection. Otherwise each full collection would visit the 190,000
    objects of PyTorch, which takes more than a tenth of a second.
    """
    set_threads(threads)
    keep_freed_memory()
    gc.freeze()
    return choose_device("cpu" if name == "auto" and precision == "int8" else name)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Returns True if matrix multiplication on the device is faster in bfloat16 than in float32.

    This is the case for NVIDIA GPUs since Ampere, and for CPUs with AVX512-BF16 or AMX. Intel CPUs require AMX, which a
    virtual machine may hide: with AVX-512 alone, they multiply matrices half as fast in bfloat16 as in float32.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= AMPERE
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    if "Intel" in capabilities.get("cpu_name", ""):
        return bool(capabilities.get("amx_bf16", False))
    return bool(capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False))


def set_threads(threads: int | None) -> None:
    """Sets the number of threads that PyTorch uses; with None, the default of one thread per core is kept.

    Raises ValueError if the number is less than 1 or above the limit, which is `MIN_LIMIT` or `THREADS_PER_CORE` times
    the number of cores, whichever is larger.
    """
    if threads is None:
        return
    limit = max(MIN_LIMIT, THREADS_PER_CORE * (cores := count_cores()))
    if not 1 <= threads <= limit:
        raise ValueError(
            f"threads {threads}: choose 1 to {limit}; more threads than cores, here {cores}, are no faster"
        )
    torch.set_num_threads(threads)


def keep_freed_memory() -> None:
    """Makes glibc keep freed memory instead of returning it to the operating system.

    By default, glibc maps each large block anew in every step, and the kernel has to zero its pages. On a CPU, this
    takes between a tenth and a half of the training time of a small model. With any other C library, this function does
    nothing.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL("libc.so.6")
    for parameter, value in (ONE_ARENA, NEVER_MAP, NEVER_TRIM):
        library.mallopt(parameter, value)


def flush_subnormals() -> None:
    """Makes the CPU treat subnormal numbers, those below about 1e-38, as 0, because they slow it down.

    This setting applies to the current thread and to threads that PyTorch starts later, so the function must be called
    before PyTorch computes anything.
    """
    torch.set_flush_denormal(True)


@contextlib.contextmanager
def training_numerics(device: torch.device, threads: int | None) -> Iterator[None]:
    """Sets up fast and deterministic training within the context, and restores the earlier settings afterwards.

    Within the context, algorithms are deterministic and subnormal numbers are treated as 0. The number of threads is
    set as well, unless `threads` is None.
    """
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    mode, thread_count = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    is_flushed = float(torch.tensor(1e-40) * 1.0) == 0
    try:
        flush_subnormals()
        set_threads(threads)
        use_deterministic_algorithms(device)
        yield
    finally:
        torch.set_flush_denormal(is_flushed)
        torch.set_num_threads(thread_count)
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]


def count_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_deterministic_algorithms(device: torch.device) -> None:
    """Makes results on a CPU bit-identical, given the same machine and the same number of threads.

    On a GPU this function does nothing. There, the gradients of attention are summed in no fixed order in any mode, and
    summing the gradients of embeddings in a fixed order would take much longer.
    """
    if device.type == "cuda":
        return
    # This has the same effect as torch.use_deterministic_algorithms(True, warn_only=True), but it does not import the
    # compiler, which takes over a second.
    torch.set_deterministic_debug_mode("warn")
    # Without this setting, deterministic mode would also fill each new tensor with NaN, to expose reads of
    # uninitialised memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def processor_name() -> str:
    """Returns the model name of the processor or, if it is unknown, Python's description of the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Returns a description of the software and hardware on which the exact result of a run depends."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": processor_name(),
    }


@lru_cache(maxsize=1)
def has_numba() -> bool:
    """Returns True if numba can be used; the first call imports it, which takes a third of a second."""
    try:
        import numba  # noqa: F401
    except ImportError:  # numba is not installed, or is too old for the installed NumPy
        return False
    return True


_forks = 0


def count_forks() -> int:
    """Returns the number of forks between the first Python process and this one."""
    return _forks


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_count_fork)
