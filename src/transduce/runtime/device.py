"""Settings of device, threads and memory, and of the numerics that make training fast and bit-identical."""

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

AMPERE = (8, 0)  # compute capability of the first NVIDIA GPUs that multiply bfloat16

# Limits on the number of threads. They allow the results of a larger machine to be repeated, but OpenMP crashes if it
# cannot start its threads.
MIN_LIMIT, THREADS_PER_CORE = 256, 4

# Parameters of glibc's mallopt.
ONE_ARENA, NEVER_MAP, NEVER_TRIM = (-8, 1), (-4, 0), (-1, 2**31 - 1)


def gpu_memory(device: torch.device) -> int:
    """Total memory of a GPU in bytes, used or not."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def choose_device(name: str) -> torch.device:
    """Returns the device with a name; `auto` is a GPU if there is one; `cuda:1` also becomes torch's current GPU.

    Raises ValueError for a device that does not exist.
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
    """Sets up this process for computing and returns the device with a name; for commands.

    For int8, `auto` means the CPU. Sets threads and memory, and exempts all present objects from Python's garbage
    collector: collecting all generations would visit torch's 190,000 objects, which takes more than a tenth of a
    second.
    """
    set_threads(threads)
    keep_freed_memory()
    gc.freeze()
    return choose_device("cpu" if name == "auto" and precision == "int8" else name)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether matrix multiplication in bfloat16 is faster than in float32.

    A CPU needs AVX512-BF16 or AMX. Intel's processors need AMX, which a virtual machine may hide: with AVX-512 alone,
    they multiply matrices half as fast in bfloat16 as in float32.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= AMPERE
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    if "Intel" in capabilities.get("cpu_name", ""):
        return bool(capabilities.get("amx_bf16", False))
    return bool(capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False))


def set_threads(threads: int | None) -> None:
    """Sets the number of torch's threads; None keeps torch's choice, one per core.

    Raises ValueError for less than 1, and for more than both MIN_LIMIT and THREADS_PER_CORE times the cores.
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
    """Makes glibc keep freed memory instead of returning it to the system; does nothing with any other C library.

    By default, glibc maps each large block anew and the kernel clears its pages at every step. That takes a tenth to a
    half of the training time of a small model on a CPU.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL("libc.so.6")
    for parameter, value in (ONE_ARENA, NEVER_MAP, NEVER_TRIM):
        library.mallopt(parameter, value)


def flush_subnormals() -> None:
    """Makes the CPU treat numbers below 1e-38, which slow it down, as 0.

    Must be called before torch computes: it applies to this thread and to threads that torch starts later.
    """
    torch.set_flush_denormal(True)


@contextlib.contextmanager
def training_numerics(device: torch.device, threads: int | None) -> Iterator[None]:
    """Sets up bit-identical and fast training within the context, and then restores the earlier settings.

    Sets deterministic algorithms, subnormal numbers as 0 and the number of threads, unless `threads` is None.
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
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_deterministic_algorithms(device: torch.device) -> None:
    """Makes results on a CPU bit-identical on the same machine with the same number of threads.

    Does nothing on a GPU: there the order in which the gradients of attention are summed is not fixed in any mode, and
    summing the gradients of embeddings in a fixed order would take much longer.
    """
    if device.type == "cuda":
        return
    # Like use_deterministic_algorithms(True, warn_only=True), but does not import the compiler, which takes over a
    # second.
    torch.set_deterministic_debug_mode("warn")
    # Deterministic mode would also fill each new tensor with NaN, to expose reads of uninitialised memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def processor_name() -> str:
    """Model name of the processor, or the platform's description if the name is not known."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Returns everything that the exact result of a run depends on, except the recipe and the data."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": processor_name(),
    }


@lru_cache(maxsize=1)
def has_numba() -> bool:
    """Whether numba can be used. The first call imports it, which takes a third of a second."""
    try:
        import numba  # noqa: F401
    except ImportError:  # it is not installed, or older than the installed NumPy
        return False
    return True


_forks = 0


def count_forks() -> int:
    """Number of forks between the first Python process and this one."""
    return _forks


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_count_fork)
