"""Compilation by numba, and its cache."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

# The flags assume that infinity and NaN do not occur. Only sums may be reordered, so that they can be vectorised; each
# sum is therefore a function of its own. These functions are always inlined. Otherwise freshly compiled code would call
# a sum that was optimised on its own, while code from the cache would contain the sum as it was optimised again inside
# its caller, which adds in a different order.
_FINITE = {"nnan", "ninf", "nsz", "arcp", "contract", "afn"}
inlined = njit(fastmath=_FINITE, error_model="numpy", inline="always")
summed = njit(fastmath=_FINITE | {"reassoc"}, error_model="numpy", nogil=True, forceinline=True)
compiled = njit(fastmath=_FINITE, error_model="numpy", nogil=True)
FIRST_INDEX = np.int64(0)  # pass this: a literal 0 has a different type, so numba would recompile a function
exact = njit(error_model="numpy", nogil=True)  # for numbers that may be infinite


uncached: list[str] = []
"""Functions that every process compiles itself, because the cache has no writable folder."""


def cached(function: Any) -> Any:
    """Compiles a function when it is first called with arguments of new types, or loads it from numba's cache.

    Only functions that Python calls are cached; the cached code includes the functions that they call.
    """
    return _cached(function, _FINITE)


def cached_exact(function: Any) -> Any:
    """Compiles or loads a function like `cached`, for numbers that may be infinite."""
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
    """Deletes numba's cache for the module `source` in `folder` if it was compiled from different source code.

    Compared are `source`, the modules of this package, and the modules next to `source` whose names begin with
    `compiled_`. Numba itself notices a change in the module, but not in the functions that the module calls. It also
    cannot read an entry that names a class that no longer exists.
    """
    files = sorted({source, *source.parent.glob("compiled_*.py"), *Path(__file__).parent.glob("*.py")})
    digest, stamp = hashlib.sha256(b"".join(map(Path.read_bytes, files))).digest(), folder / f"{source.stem}.sources"
    if stamp.exists() and stamp.read_bytes() == digest:
        return
    for path in folder.glob(f"{source.stem}.*.nb[ic]"):
        path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_bytes(digest)
