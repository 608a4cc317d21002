"""Whether numba can compile code here."""

from functools import lru_cache

__all__ = ["has_numba"]


@lru_cache(maxsize=1)
def has_numba() -> bool:
    """Returns whether numba can be used. The first call imports it, which takes a third of a second."""
    try:
        import numba  # noqa: F401
    except ImportError:  # it is not installed, or older than the installed NumPy
        return False
    return True
