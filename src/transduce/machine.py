"""What the machine is told before work begins: device, threads, memory, repeatable bits."""

import ctypes
import platform
import sys
from typing import Any

import torch

__all__ = [
    "choose_device",
    "compile_on_gpu",
    "environment",
    "keep_pages",
    "multiplies_bfloat16",
    "refused_memory",
    "repeat_bits",
    "use_threads",
]

# Parameters of glibc's mallopt.
ONE_ARENA, NEVER_MAP, NEVER_TRIM = (-8, 1), (-4, 0), (-1, 2**31 - 1)


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one; a `ValueError` for a device that is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.split(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f"--device {name}: choose auto, cpu or cuda")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"--device {name}: torch {torch.__version__} sees no GPU here; use --device cpu")
    return torch.device(name)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether products in bfloat16 are faster there than in float32: on a processor without them, they are slower."""
    if device.type == "cuda":
        return True
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False))


def refused_memory(error: Exception) -> bool:
    """Whether memory was refused; on a CPU torch has no error of its own for it."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def use_threads(threads: int | None) -> None:
    """How many threads compute; None leaves it to torch: one a core."""
    if threads is not None:
        torch.set_num_threads(threads)


def keep_pages() -> None:
    """Has the C library keep freed memory instead of handing it back to the system.

    By default it maps each large block anew and the kernel clears every page of it, at each step again: a tenth to a
    half of a small model's training on a CPU. Where the library is not glibc, nothing happens.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL("libc.so.6")
    for parameter, value in (ONE_ARENA, NEVER_MAP, NEVER_TRIM):
        library.mallopt(parameter, value)


def compile_on_gpu(module: torch.nn.Module, device: torch.device) -> None:
    """Has torch fuse what is between the matrix products, on a GPU, where launching each alone would cost the most.

    The second shape makes the compiled code general, so that it is compiled twice and not for each shape.
    """
    if device.type == "cuda":
        module.compile()


def repeat_bits() -> None:
    """The same input gives the same bits, on the same machine with the same threads."""
    # What use_deterministic_algorithms(True, warn_only=True) does, which also imports the compiler: a second and more.
    torch.set_deterministic_debug_mode("warn")
    # The flag would also fill all fresh memory with NaN, to show reads of it, at each allocation.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def environment(device: torch.device) -> dict[str, Any]:
    """What the bits of a training depend on besides its recipe and data."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "processor": torch.backends.cpu.get_cpu_capability(),
        "processes": 1,
    }
