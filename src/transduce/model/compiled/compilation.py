"""Compilation by numba, and its cache."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

# Infinity and NaN do not occur. Only sums, which are functions of their own, may be reordered, so that they are
# vectorised. They are inlined by force: otherwise code that was just compiled calls the sum as it was optimised alone,
# and code from the cache the sum as it was optimised once more within its caller, in another order.
_FINITE = {"nnan", "ninf", "nsz", "arcp", "contract", "afn"}
inlined = njit(fastmath=_FINITE, error_model="numpy", inline="always")
summed = njit(fastmath=_FINITE | {"reassoc"}, error_model="numpy", nogil=True, forceinline=True)
compiled = njit(fastmath=_FINITE, error_model="numpy", nogil=True)
FIRST_INDEX = np.int64(0)  # as an argument; a literal 0 is another type, for which numba compiles a function again
exact = njit(error_model="numpy", nogil=True)  # for numbers that may be infinite


uncached: list[str] = []
"""Functions that every process compiles, because there is no folder for the cache."""


def cached(function: Any) -> Any:
    """Compiles a function at its first call with arguments of other types, or loads it from numba's cache.

    Only functions that Python calls are cached; each contains the code of those that it calls.
    """
    return _cached(function, _FINITE)


def cached_exact(function: Any) -> Any:
    """Compiles or loads a function as `cached`, for numbers that may be infinite."""
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
    """Deletes what numba has cached in `folder` for the module `source` where it was compiled from other sources.

    The sources are the modules of this package, and the modules beside `source` whose names begin with `compiled_`.
    Numba itself notices changes of the module, but not of the functions that it calls, and cannot read an entry that
    names a class that is no more.
    """
    files = sorted({source, *source.parent.glob("compiled_*.py"), *Path(__file__).parent.glob("*.py")})
    digest, stamp = hashlib.sha256(b"".join(map(Path.read_bytes, files))).digest(), folder / f"{source.stem}.sources"
    if stamp.exists() and stamp.read_bytes() == digest:
        return
    for path in folder.glob(f"{source.stem}.*.nb[ic]"):
        path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_bytes(digest)
