"""Reads the files that `torch.save` writes: tensors and plain data, without unpickling (see `pickle_reader`).

Every size is compared with the size of the file before memory is allocated for it.
"""

import contextlib
import io
import math
import mmap
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from transduce.exchange.pickle_reader import Call, Global, Persistent, Scalar, read_pickle
from transduce.exchange.stored_zip import check_entries, require_file

__all__ = ["part_of", "plain_values", "read_checkpoint"]

MAX_PICKLE_BYTES = 2**28
MAX_SHARING = 8  # bytes of tensors for each byte of a file, since several tensors may be one

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
    *(f"torch.{name}" for name in DTYPES),
}
"""Names that checkpoints have; all but the containers stay names."""

RECORDS = ("omegaconf.", "fairseq.")
"""Modules whose objects are kept as records: settings, their enumerations, and meters."""

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # the first value in files of torch before version 1.6


Storages = dict[str, bytearray]
"""The bytes of each storage, by key."""


class StoredTensor(NamedTuple):
    """A tensor as a checkpoint describes it: a part of a storage."""

    storage: str
    dtype: torch.dtype
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


Select = Callable[[Any], Any]
"""Returns the dictionary of tensors in the value that was saved."""

Find = Callable[[Any], dict[str, StoredTensor]]
"""Returns the tensors of that dictionary as the file describes them."""


def read_checkpoint(path: Path, select: Select) -> tuple[Any, dict[str, Tensor]]:
    """Returns the value in a file that `torch.save` wrote, and the tensors of the dictionary that `select` finds in it.

    The value has records in place of tensors; no other tensors are read. Raises ValueError for any other, a damaged or
    a hostile file.
    """

    def find(value: Any) -> dict[str, StoredTensor]:
        try:
            return _stored_tensors(select(value))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    require_file(path)
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
        value, storages = (_read_zip if is_zip else _read_legacy)(file, path, find)
    tensors: dict[str, Tensor] = {}
    remaining = MAX_SHARING * path.stat().st_size
    for name, stored in find(value).items():
        tensors[name] = _load(stored, storages, f"{path}: {name}")
        remaining -= tensors[name].nbytes
        if remaining < 0:
            raise ValueError(f"{path} has tensors of more than {MAX_SHARING} times its size")
    return value, tensors


def part_of(value: Any, name: str) -> Any:
    """Returns an attribute or an item of a record, an `argparse.Namespace` say, or of a dictionary; None without it."""
    content = value.state.get("_content", value.state) if isinstance(value, Call) else value
    return content.get(name) if isinstance(content, dict) else None


def plain_values(value: Any) -> dict[str, Any]:
    """Returns the settings of an `argparse.Namespace`, a container of OmegaConf or a dictionary.

    A setting is a string, a number, a list of these, or the name of its type where it is anything else.
    """
    content = value.state.get("_content", value.state) if isinstance(value, Call) else value
    return {str(key): _plain_value(inner) for key, inner in content.items()} if isinstance(content, dict) else {}


def _plain_value(value: Any) -> Any:
    """Returns a setting: the value that OmegaConf wraps, the argument of an enumeration, or the value itself.

    Nothing is followed further: a hostile file may nest values so that to print or to compare them takes forever.
    """
    if isinstance(value, Call) and "_val" in value.state:  # a node of OmegaConf
        value = value.state["_val"]
    if isinstance(value, Call) and len(value.arguments) == 1:
        value = value.arguments[0]
    if isinstance(value, Scalar):
        return value
    is_flat = isinstance(value, list | tuple) and all(isinstance(item, Scalar) for item in value)
    return list(value) if is_flat else f"a {type(value).__name__}"


def _is_known(name: Global) -> bool:
    return str(name) in KNOWN or name.module.startswith(RECORDS)


def _read_zip(file: BinaryIO, path: Path, find: Find) -> tuple[Any, Storages]:
    """Reads a file of torch 1.6 or later, a zip of a pickle and of storages that are not compressed."""
    try:
        with zipfile.ZipFile(file) as archive:
            check_entries(archive, path)
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
        raise ValueError(f"{path} is no checkpoint, or is damaged: {error}") from None
    return value, storages


def _read_legacy(file: BinaryIO, path: Path, find: Find) -> tuple[Any, Storages]:
    """Reads a file of torch before 1.6: five pickles, then the storages in the order of the fifth."""
    size = path.stat().st_size
    if not size:
        raise ValueError(f"{path} is empty")
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:  # never reads more than there is
        if read_pickle(content, _is_known, str(path)) != LEGACY_MAGIC:
            raise ValueError(f"{path} is no checkpoint: it does not begin as files of torch do")
        _version, system, value, keys = (read_pickle(content, _is_known, str(path)) for _ in range(4))
        if not isinstance(system, dict) or system.get("little_endian") is not (sys.byteorder == "little"):
            raise ValueError(f"{path} has another byte order than this machine; save it anew here")
        wanted = {tensor.storage for tensor in find(value).values()}
        item_sizes, storages = _item_sizes(value), dict[str, bytearray]()
        for key in keys if isinstance(keys, list) else ():
            count = int.from_bytes(content.read(8), "little", signed=True)
            length = count * item_sizes.get(key, 1) if isinstance(key, str) else -1
            if not 0 <= length <= size - content.tell():
                raise ValueError(f"{path} is damaged: a storage claims {count:,} numbers")
            if key in wanted:
                storages[key] = bytearray(content.read(length))
            else:
                content.seek(length, 1)
    return value, storages


def _item_sizes(value: Any) -> dict[str, int]:
    """Returns the bytes of a number of each storage that a value refers to."""
    sizes: dict[str, int] = {}
    pending, seen = [value], set[int]()
    while pending:
        inner = pending.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        if isinstance(inner, Persistent):
            with contextlib.suppress(ValueError):  # of a storage that is not read
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
    """Returns the tensors of a dictionary, by name; raises ValueError where it is no dictionary of tensors."""
    if not isinstance(value, dict):
        raise ValueError("it holds no dictionary of tensors")
    tensors = {str(name): _stored_tensor(inner) for name, inner in value.items()}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _stored_tensor(value: Any) -> StoredTensor | None:
    """Returns the tensor that a call describes, within a parameter or alone; None where the value is no tensor."""
    match value:
        case Call(Global("torch._utils", "_rebuild_parameter"), (inner, *_)):
            value = inner
    match value:
        case Call(Global("torch._utils", "_rebuild_tensor_v2"), arguments):
            match arguments:
                case (Persistent() as storage, int(offset), tuple(shape), tuple(strides), *_):
                    return StoredTensor(*_storage(storage), offset, shape, strides)
            raise ValueError("a tensor is described in a way that torch does not")
    return None


def _storage(value: Persistent) -> tuple[str, torch.dtype]:
    """Returns the key and the dtype of a storage."""
    match value.reference:
        case ("storage", Global("torch", name), str(key), *_) if name in DTYPES:
            return key, DTYPES[name]
    raise ValueError("a storage of a tensor is described in a way that torch does not")


def _load(stored: StoredTensor, storages: Storages, place: str) -> Tensor:
    """Returns a copy of a tensor; raises ValueError where it reaches beyond its storage."""
    content = storages.get(stored.storage, bytearray())
    available = len(content) // stored.dtype.itemsize
    sizes = [stored.offset, *stored.shape, *stored.strides]
    is_sane = len(stored.shape) == len(stored.strides) <= 8 and all(type(n) is int and 0 <= n < 2**48 for n in sizes)
    if not is_sane or _numbers_needed(stored) > available:
        raise ValueError(f"{place} is damaged: the tensor reaches beyond its {available:,} stored numbers")
    if not math.prod(stored.shape):
        return torch.empty(stored.shape, dtype=stored.dtype)
    numbers = torch.frombuffer(content, dtype=stored.dtype, count=available)
    return numbers.as_strided(stored.shape, stored.strides, stored.offset).clone()


def _numbers_needed(stored: StoredTensor) -> int:
    """Returns the numbers that a storage must have for a tensor, at least one for each element."""
    count = math.prod(stored.shape)
    last = stored.offset + sum((size - 1) * stride for size, stride in zip(stored.shape, stored.strides, strict=True))
    return max(count, last + 1) if count else 0
