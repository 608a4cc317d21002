"""Reads the arrays of an npz file, whose sizes are compared with the size of the file before any is read."""

import io
import math
import zipfile
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from transduce.exchange.stored_zip import check_entries, require_file

__all__ = ["read_npz"]

DTYPES = ("float32", "float16", "int8", "uint8")
"""Types of the arrays of a model: weights, and its settings as bytes."""


def read_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    """Returns the arrays by name; raises ValueError for compressed, damaged or other files."""
    require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            check_entries(archive, path)
            return {
                entry.filename.removesuffix(".npy"): _array(archive.read(entry), f"{path}: {entry.filename!a}")
                for entry in archive.infolist()
            }
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path} is no npz file, or is damaged: {error}") from None


def _array(content: bytes, place: str) -> NDArray[np.generic]:
    """Returns the array of an entry; raises ValueError where header and size disagree."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = read_header[version](file)
    except (ValueError, KeyError, TypeError, SyntaxError, TokenError) as error:
        raise ValueError(f"{place} is no array: {error}") from None
    if dtype.name not in DTYPES or not dtype.isnative or fortran:
        raise ValueError(
            f"{place} is an array of {dtype.str}; a model has little-endian {', '.join(DTYPES)} in C order"
        )
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"{place} is damaged: it has {len(content) - file.tell():,} bytes for the shape {shape}")
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)
