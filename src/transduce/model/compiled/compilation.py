"""Decorators that compile functions with numba, and the cache for the compiled code."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

# These flags let LLVM assume that infinity and NaN do not occur. Additions may be reordered (`reassoc`), which is
# necessary to vectorise a sum, only in functions that do nothing but sum. Such functions are always inlined. Otherwise
# freshly compiled code would call a sum that was optimised on its own, whereas code from the cache would contain a sum
# that was optimised again as part of its caller, and the two would add in different orders.
_FINITE = {"nnan", "ninf", "nsz", "arcp", "contract", "afn"}
inlined = njit(fastmath=_FINITE, error_model="numpy", inline="always")
summed = njit(fastmath=_FINITE | {"reassoc"}, error_model="numpy", nogil=True, forceinline=True)
compiled = njit(fastmath=_FINITE, error_model="numpy", nogil=True)
FIRST_INDEX = np.int64(0)  # pass this instead of a literal 0, for whose type numba would compile a function again
exact = njit(error_model="numpy", nogil=True)  # for functions whose numbers may be infinite


uncached: list[str] = []
"""The names of functions that each process has to compile again, because there is no writable cache folder."""


def cached(function: Any) -> Any:
    """Compiles a function when it is first called with arguments of new types, or loads it from numba's cache.

    Only functions that Python calls need this decorator, because their cached code includes the functions that they
    call.
    """
    return _cached(function, _FINITE)


def cached_exact(function: Any) -> Any:
    """Compiles or loads a function like `cached`, but without the assumption that all numbers are finite."""
    return _cached(function, set())


def _cached(function: Any, fastmath: set[str]) -> Any:
    options: dict[str, Any] = {"fastmath": fastmath, "error_model": "numpy", "nogil": True}
    try:
        kernel = njit(cache=True, **options)(function)
        _forget_other_sources(Path(kernel.stats.cache_path), Path(function.__code__.co_filename))
    except (RuntimeError, OSError):  # there is no folder for the cache, or it cannot be written
        uncached.append(function.__name__)
        return njit(**options)(function)
    return kernel


def _forget_other_sources(folder: Path, source: Path) -> None:
    """Deletes numba's cached code of the module `source` from `folder` if it was compiled from different source code.

    The source code consists of `source` itself, the modules of this package, and the modules next to `source` whose
    names begin with `compiled_`. Numba itself notices when the module changes, but not when a function that it calls
    from another module changes. It also fails to read cached code that refers to a class that no longer exists.
    """
    files = sorted({source, *source.parent.glob("compiled_*.py"), *Path(__file__).parent.glob("*.py")})
    digest, stamp = hashlib.sha256(b"".join(map(Path.read_bytes, files))).digest(), folder / f"{source.stem}.sources"
    if stamp.exists() and stamp.read_bytes() == digest:
        return
    for path in folder.glob(f"{source.stem}.*.nb[ic]"):
        path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_bytes(digest)
