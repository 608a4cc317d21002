"""Reads the weight files of other programs, which were written by `torch.save` or NumPy.

Files of `torch.save` are read without unpickling them (see `pickle_reader`). Before memory is allocated, the size that
a file claims for its content is compared with the size of the file.
"""

import contextlib
import io
import math
import mmap
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.exchange.pickle_reader import Call, Global, Persistent, Scalar, read_pickle

MAX_PICKLE_BYTES = 2**28
MAX_SHARING = 8  # largest number of bytes of tensors per byte of the file; tensors may share a storage

DTYPES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}

BUILTINS = ("set", "frozenset", "dict", "list", "tuple", "int", "float", "str", "bool")

KNOWN = {
    *("collections.OrderedDict", "collections.defaultdict", "collections.Counter", "argparse.Namespace"),
    *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in BUILTINS),
    *("typing.Any", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter", "torch.Size"),
    # Scalars and arrays of NumPy, because `fairseq-train --eval-bleu` stores its best BLEU score as a `numpy.float64`.
    *(f"{numpy}.multiarray.{name}" for numpy in ("numpy.core", "numpy._core") for name in ("scalar", "_reconstruct")),
    *("numpy.dtype", "numpy.ndarray", "_codecs.encode"),
    *(f"torch.{name}" for name in DTYPES),
}
"""The names that checkpoints import. Of the calls to them, only those that build containers are carried out."""

RECORDS = ("omegaconf.", "fairseq.")
"""The modules whose objects are represented by records. These objects are settings, their enumerations, and meters."""

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # the first value in files that torch wrote before version 1.6


Storages = dict[str, bytearray]
"""The content of each storage, by its key."""

ARRAY_TYPES = ("float32", "float16", "int8", "uint8")
"""The array types in a Marian model, which contains weights and, as an array of bytes, its settings."""


class StoredTensor(NamedTuple):
    """A tensor as a checkpoint describes it: a strided view of a storage."""

    storage: str
    dtype: torch.dtype
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_checkpoint(path: Path, select: Callable[[Any], Any]) -> tuple[Any, dict[str, Tensor]]:
    """Reads a file written by `torch.save`. Returns its value, and the tensors in one dictionary of the value.

    `select` returns this dictionary when it is called with the value. Other tensors are not read. In the value itself,
    all tensors are replaced by records. Raises ValueError if the file is damaged or hostile, or if `torch.save` did not
    write it.
    """

    def find(value: Any) -> dict[str, StoredTensor]:
        try:
            return _stored_tensors(select(value))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    _require_file(path)
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
        value, storages = (_read_zip if is_zip else _read_legacy)(file, path, find)
    tensors: dict[str, Tensor] = {}
    remaining = MAX_SHARING * path.stat().st_size
    for name, (storage, dtype, offset, shape, strides) in find(value).items():
        content = storages.get(storage, bytearray())
        available = len(content) // dtype.itemsize
        sizes = [offset, *shape, *strides]
        is_valid = len(shape) == len(strides) <= 8 and all(type(size) is int and 0 <= size < 2**48 for size in sizes)
        count = math.prod(shape) if is_valid else 0
        if count:
            last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
            # Each element must have a stored number of its own. Otherwise, a stride of 0 could make a large tensor from
            # a single number.
            is_valid = max(count, last + 1) <= available
        if not is_valid:
            raise ValueError(f"{path}: {name} is damaged: the tensor reaches beyond its {available:,} stored numbers")
        if count:
            numbers = torch.frombuffer(content, dtype=dtype, count=available)
            tensors[name] = numbers.as_strided(shape, strides, offset).clone()
        else:
            tensors[name] = torch.empty(shape, dtype=dtype)
        remaining -= tensors[name].nbytes
        if remaining < 0:
            raise ValueError(f"{path} has tensors of more than {MAX_SHARING} times its size")
    return value, tensors


def part_of(value: Any, name: str) -> Any:
    """Returns the attribute `name` of a record, or the item `name` of a dictionary, or None if it does not exist.

    A record represents an object, for example an `argparse.Namespace`.
    """
    return _content(value).get(name)


def plain_values(settings: Any) -> dict[str, Any]:
    """Returns the settings in an `argparse.Namespace`, an OmegaConf container or a dictionary as plain values.

    Each value is a scalar or a list of scalars. Any other value is replaced by a string that names its type.
    """
    values: dict[str, Any] = {}
    for key, value in _content(settings).items():
        # The content of other values is not read, because a hostile file could nest them so deeply that printing or
        # comparing them would take forever.
        if isinstance(value, Call) and "_val" in value.state:  # a node of OmegaConf
            value = value.state["_val"]
        if isinstance(value, Call) and len(value.arguments) == 1:  # an enumeration
            value = value.arguments[0]
        if isinstance(value, Scalar):
            values[str(key)] = value
        elif isinstance(value, list | tuple) and all(isinstance(item, Scalar) for item in value):
            values[str(key)] = list(value)
        else:
            values[str(key)] = f"a {type(value).__name__}"
    return values


def _content(value: Any) -> dict[Any, Any]:
    """Returns the attributes of a record, the content of an OmegaConf container, or the items of a dictionary."""
    content = value.state.get("_content", value.state) if isinstance(value, Call) else value
    return content if isinstance(content, dict) else {}


def _is_known(name: Global) -> bool:
    return str(name) in KNOWN or name.module.startswith(RECORDS)


Find = Callable[[Any], dict[str, StoredTensor]]
"""A function that returns the tensors to read, given the value of a file."""


def _read_zip(file: BinaryIO, path: Path, find: Find) -> tuple[Any, Storages]:
    """Reads a file of torch 1.6 or later, which is a zip archive with a pickle and uncompressed storages."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_entries(archive, path)
            entries = {entry.filename: entry for entry in archive.infolist()}
            folder = next((name.partition("/")[0] for name in entries if name.endswith("/data.pkl")), None)
            if folder is None or entries[f"{folder}/data.pkl"].file_size > MAX_PICKLE_BYTES:
                raise ValueError(f"{path} is a zip without a checkpoint that this program can read")
            order = archive.read(f"{folder}/byteorder") if f"{folder}/byteorder" in entries else b"little"
            if order != sys.byteorder.encode():
                raise ValueError(f"{path} has the byte order {order!a}; save it anew on this machine")
            value = read_pickle(io.BytesIO(archive.read(f"{folder}/data.pkl")), _is_known, str(path))
            keys = {tensor.storage for tensor in find(value).values()}
            names = {key: f"{folder}/data/{key}" for key in keys}
            storages = {key: bytearray(archive.read(name)) for key, name in names.items() if name in entries}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, KeyError) as error:
        raise ValueError(f"{path} is not a checkpoint, or is damaged: {error}") from None
    return value, storages


def _read_legacy(file: BinaryIO, path: Path, find: Find) -> tuple[Any, Storages]:
    """Reads a file that torch wrote before version 1.6.

    The file consists of five pickles, followed by the storages in the order in which the fifth pickle lists them.
    """
    size = path.stat().st_size
    if not size:
        raise ValueError(f"{path} is empty")
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:  # never returns more bytes than the file has
        if read_pickle(content, _is_known, str(path)) != LEGACY_MAGIC:
            raise ValueError(f"{path} is not a checkpoint: it does not begin as files of torch do")
        _version, system, value, keys = (read_pickle(content, _is_known, str(path)) for _ in range(4))
        if not isinstance(system, dict) or system.get("little_endian") is not (sys.byteorder == "little"):
            raise ValueError(f"{path} has another byte order than this machine; save it anew here")
        needed = {tensor.storage for tensor in find(value).values()}
        item_sizes, storages = _item_sizes(value), dict[str, bytearray]()
        for key in keys if isinstance(keys, list) else ():
            count = int.from_bytes(content.read(8), "little", signed=True)
            length = count * item_sizes.get(key, 1) if isinstance(key, str) else -1
            if not 0 <= length <= size - content.tell():
                raise ValueError(f"{path} is damaged: a storage claims {count:,} numbers")
            if key in needed:
                storages[key] = bytearray(content.read(length))
            else:
                content.seek(length, 1)
    return value, storages


def _item_sizes(value: Any) -> dict[str, int]:
    """Returns the number of bytes per element in each storage to which a value refers."""
    sizes: dict[str, int] = {}
    pending, seen = [value], set[int]()
    while pending:
        inner = pending.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        if isinstance(inner, Persistent):
            with contextlib.suppress(ValueError):  # a storage with a malformed reference is not read
                key, dtype = _storage(inner)
                sizes[key] = dtype.itemsize
        elif isinstance(inner, dict):
            pending += inner.values()
        elif isinstance(inner, Call):
            pending += [*inner.arguments, inner.state]
        elif isinstance(inner, list | tuple):
            pending += inner
    return sizes


def _stored_tensors(value: Any) -> dict[str, StoredTensor]:
    """Returns the tensors in a dictionary by name.

    Raises ValueError if the value is not a dictionary, or if a tensor is malformed.
    """
    if not isinstance(value, dict):
        raise ValueError("it holds no dictionary of tensors")
    tensors: dict[str, StoredTensor] = {}
    for name, inner in value.items():
        match inner:
            case Call(Global("torch._utils", "_rebuild_parameter"), (parameter, *_)):
                inner = parameter
        match inner:
            case Call(
                Global("torch._utils", "_rebuild_tensor_v2"),
                (Persistent() as storage, int(offset), tuple(shape), tuple(strides), *_),
            ):
                tensors[str(name)] = StoredTensor(*_storage(storage), offset, shape, strides)
            case Call(Global("torch._utils", "_rebuild_tensor_v2")):
                raise ValueError("a tensor is described in a way that torch does not")
    return tensors


def _storage(value: Persistent) -> tuple[str, torch.dtype]:
    """Returns the key and the dtype of a storage; raises ValueError if the reference to it is malformed."""
    match value.reference:
        case ("storage", Global("torch", name), str(key), *_) if name in DTYPES:
            return key, DTYPES[name]
    raise ValueError("a storage of a tensor is described in a way that torch does not")


def read_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    """Returns the arrays in an npz file by name.

    Raises ValueError if the file is compressed or damaged, or if it is not an npz file.
    """
    _require_file(path)
    arrays: dict[str, NDArray[np.generic]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            _check_entries(archive, path)
            for entry in archive.infolist():
                place = f"{path}: {entry.filename!a}"
                arrays[entry.filename.removesuffix(".npy")] = _array(archive.read(entry), place)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path} is not an npz file, or is damaged: {error}") from None
    return arrays


def _array(content: bytes, place: str) -> NDArray[np.generic]:
    """Returns the array that an entry of an npz file contains.

    Raises ValueError if the array has an unexpected type, or if its size does not match its header.
    """
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = read_header[version](file)
    except (ValueError, KeyError, TypeError, SyntaxError, TokenError) as error:
        raise ValueError(f"{place} is not an array: {error}") from None
    if dtype.name not in ARRAY_TYPES or not dtype.isnative or fortran:
        raise ValueError(
            f"{place} is an array of {dtype.str}; a model has little-endian {', '.join(ARRAY_TYPES)} in C order"
        )
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"{place} is damaged: it has {len(content) - file.tell():,} bytes for the shape {shape}")
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)


def _require_file(path: Path) -> None:
    """Raises ValueError if `path` is not a regular file, because opening a pipe would block until it has a writer."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file")


def _check_entries(archive: zipfile.ZipFile, path: Path) -> None:
    """Raises ValueError if an entry is compressed, or if the entries claim more bytes than the file has.

    `torch.save` and `numpy.savez` do not compress. Without compression, the content that is read is never larger than
    the file.
    """
    entries, size = archive.infolist(), path.stat().st_size
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{path} has the compressed entry {entry.filename!a}; save it again without compression")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError(f"{path} is damaged: its entries claim more than its {size:,} bytes")
