"""Random changes of the structure of JSON, tensors, stores, translation memories and of the files themselves.

`write_sealed` renews the checksums over a changed file, so that a reader meets what is inside.
"""

import contextlib
import gzip
import hashlib
import json
import math
import os
import random
import re
import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HOLE = "@hole@"
OTHER_TYPES = (
    "null",
    "true",
    '""',
    '"x"',
    "3",
    "0.5",
    "[]",
    "[[]]",
    "{}",
    '{"kind": "x"}',
    '["x", 1]',
    "[[1, 2], null]",
)
NUMBERS = ("-1", "0", "-0.0", "1", "1.5", "1e-400", "1e999", "NaN", "Infinity", "-Infinity", "2147483648", "4294967297")
NUMBERS += ("9007199254740993", "18446744073709551616", "-9223372036854775809", "9" * 40, "9" * 5000, "1" + "0" * 300)
TEXTS = (
    "\0",
    "\ud800",
    "../outside/secret.txt",
    "/dev/zero",
    "/dev/stdin",
    "\x1b]0;x\x07\x1b[31m",
    "x" * 200_000,
    "..",
)
TEXTS += (".", "/", "-", "~", "${HOME}", "model.safetensors", "tokenizer.json", "\n\n", "%s {0} \\", "é" * 300, "NaN")
FIXED = '(?:("(?:[^"\\\\]|\\\\.)*"): )?' + f'"{HOLE}"'


def change_json(values: Any, rng: random.Random) -> tuple[str, bytes]:
    """Returns the name of a change, and `values` as JSON with one value or key at any depth changed."""
    changed, old = _with_hole(values, rng)
    change = rng.choice(("type", "type", "number", "number", "text", "nested", "missing", "twice", "unknown", "longer"))
    if change == "missing":
        return f"JSON, {change}", b"" if changed == HOLE else json.dumps(_without_hole(changed)).encode()
    value = json.dumps(old)
    replacement = {
        "type": rng.choice(OTHER_TYPES),
        "number": rng.choice(NUMBERS),
        "text": json.dumps(rng.choice(TEXTS)),
        "nested": _nested(rng, value),
        "longer": f"[{', '.join([value] * rng.choice((2, 3, 2000)))}]",
    }.get(change, value)

    def fill(match: re.Match[str]) -> str:
        key = match[1]
        if key is None:
            return f"{replacement}, {rng.choice(OTHER_TYPES)}" if change == "twice" else replacement
        if change == "twice":
            return f"{key}: {value}, {key}: {rng.choice((value, *OTHER_TYPES))}"
        if change == "unknown":
            new = json.dumps(rng.choice((*TEXTS, "kind", "x", json.loads(key) + "s", json.loads(key).upper())))
            return f"{new}: {value}" + rng.choice(("", f", {key}: {value}"))
        return f"{key}: {replacement}"

    return f"JSON, {change}", re.sub(FIXED, fill, json.dumps(changed), count=1).encode()


def _nested(rng: random.Random, value: str) -> str:
    """Returns a value inside of many lists or objects."""
    before, after = rng.choice((("[", "]"), ('{"x":', "}"), ('{"kind":', "}")))
    depth = rng.choice((1, 2, 60, 900, 100_000))
    return before * depth + value + after * depth


def _with_hole(values: Any, rng: random.Random) -> tuple[Any, Any]:
    """Returns `values` with one value at any depth replaced by `HOLE`, and that value."""
    if not isinstance(values, dict | list) or not values or rng.random() < 0.12:
        return HOLE, values
    if isinstance(values, list):
        place = rng.randrange(len(values))
        changed, old = _with_hole(values[place], rng)
        return [*values[:place], changed, *values[place + 1 :]], old
    key = rng.choice(list(values))
    changed, old = _with_hole(values[key], rng)
    return {**values, key: changed}, old


def _without_hole(values: Any) -> Any:
    """Returns `values` without the element or key whose value is `HOLE`."""
    if isinstance(values, list):
        return [_without_hole(value) for value in values if value != HOLE]
    if isinstance(values, dict):
        return {key: _without_hole(value) for key, value in values.items() if value != HOLE}
    return values


BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "U64": 8, "BOOL": 1}
BYTES |= {"F8_E4M3": 1, "F8_E5M2": 1, "X9": 1, "f32": 4, "F4": 1, "C64": 8, "": 1}


def change_tensors(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Returns the name of a change, and the content of a file of tensors with its structure or some values changed."""
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    name = rng.choice([name for name in header if name != "__metadata__"])
    change = rng.choice(("header", "dtype", "shape", "offsets", "set", "not finite", "not finite", "huge", "length"))
    match change:
        case "header":
            change, text = change_json(header, rng)
            return f"tensors, {change}", _with_header(text, data)
        case "dtype" | "shape" | "set":
            tensors = {key: _Tensor(header[key], data) for key in header if key != "__metadata__"}
            {"dtype": _change_dtype, "shape": _change_shape, "set": _change_set}[change](tensors, name, rng)
            return f"tensors, {change}", _pack(tensors, rng)
        case "offsets":
            entry = header[name]
            start, stop = entry["data_offsets"]
            ends = (len(data) * 2, 2**63, 2**64 - 1, -1, start, 0, 10**25, stop + 4, 1.5, None)
            entry["data_offsets"] = rng.choice(
                ([start, rng.choice(ends)], [rng.choice(ends), stop], [stop, start], [0])
            )
        case "not finite" | "huge":
            numbers = (math.nan, math.inf, -math.inf) if change == "not finite" else (3e38, -3e38, 1e30, 1e-42)
            return f"tensors, {change}", _put_values(content, header[name], 8 + length, rng.choice(numbers), rng)
        case "length":
            claimed = rng.choice((0, 1, length - 1, length + 1, len(content), 2**31, 2**63, 2**64 - 1))
            return f"tensors, {change}", claimed.to_bytes(8, "little") + content[8:]
    return f"tensors, {change}", _with_header(json.dumps(header).encode(), data)


class _Tensor:
    """A tensor of a file: the header's entry and the bytes."""

    def __init__(self, entry: dict[str, Any], data: bytes) -> None:
        self.dtype, self.shape = entry["dtype"], entry["shape"]
        self.content = data[slice(*entry["data_offsets"])]


def _change_dtype(tensors: dict[str, _Tensor], name: str, rng: random.Random) -> None:
    """Gives one tensor, or all, another type, with as many bytes as that needs or as before."""
    dtype, resize = rng.choice(list(BYTES)), rng.random() < 0.8
    for tensor in tensors.values() if rng.random() < 0.3 else [tensors[name]]:
        tensor.dtype = dtype
        if resize:
            tensor.content = bytes(math.prod(tensor.shape) * BYTES[dtype])


def _change_shape(tensors: dict[str, _Tensor], name: str, rng: random.Random) -> None:
    """Gives one tensor another shape, with as many bytes as that needs where they are few, or as before."""
    tensor = tensors[name]
    shape = tensor.shape
    shapes = ([], [1, *shape], [*shape, 1], [math.prod(shape)], shape[::-1], [0, *shape], [2, *shape], [1] * 300)
    shapes += ([2**62, 4], [2**32, 2**32], [-1], [10**25], [1.5], ["x"], None, [1] * 70 + shape)
    tensor.shape = rng.choice(shapes)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if 0 <= (count := math.prod(tensor.shape)) < 1_000_000:
            tensor.content = (tensor.content * 2)[: 4 * count]


def _change_set(tensors: dict[str, _Tensor], name: str, rng: random.Random) -> None:
    """Takes a tensor away, adds one, gives two each other's content, or renames one."""
    other = rng.choice(list(tensors))
    match rng.randrange(5):
        case 0:
            del tensors[name]
        case 1:
            tensors[rng.choice((*TEXTS[2:], name + ".x", "weight"))] = tensors[name]
        case 2:
            tensors[name], tensors[other] = tensors[other], tensors[name]
        case 3:
            tensors.clear()
        case _:
            tensors[rng.choice((*TEXTS[2:], name.upper()))] = tensors.pop(name)


def _pack(tensors: dict[str, _Tensor], rng: random.Random) -> bytes:
    """Returns the content of a file with these tensors."""
    header: dict[str, Any] = {}
    if rng.random() < 0.2:
        header["__metadata__"] = rng.choice(({"x": 1}, {"format": "pt"}, [], {"x" * 1000: "y" * 100_000}, "x"))
    place = 0
    for name, tensor in tensors.items():
        stop = place + len(tensor.content)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [place, stop]}
        place = stop
    return _with_header(json.dumps(header).encode(), b"".join(tensor.content for tensor in tensors.values()))


def _with_header(header: bytes, data: bytes) -> bytes:
    """Returns a file of tensors: the length of the header, the header, and the data."""
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data


def _put_values(content: bytes, entry: dict[str, Any], begin: int, value: float, rng: random.Random) -> bytes:
    """Returns the content with `value` in one place, one row or all of a tensor of float32."""
    start, stop = (begin + offset for offset in entry["data_offsets"])
    if entry["dtype"] != "F32" or start == stop:
        return content
    values = np.frombuffer(content[start:stop], "<f4").reshape(-1, entry["shape"][-1] if entry["shape"] else 1).copy()
    row = rng.randrange(len(values))
    match rng.randrange(3):
        case 0:
            values[row, rng.randrange(values.shape[1])] = value
        case 1:
            values[row] = value
        case _:
            values[:] = value
    return content[:start] + values.tobytes() + content[stop:]


DTYPES = (
    "|O",
    "O",
    ">u2",
    ">u4",
    "<f8",
    "<f2",
    "<i2",
    "<i8",
    "<u8",
    "|b1",
    "|S2",
    "<U1",
    "|V0",
    "|V2",
    "<M8[s]",
    "c16",
)
DTYPES += (  # none that a store may have
    "u2,u2",
    "u1",
    "(2,)u2",
    "x",
    "",
    "1000000000u2",
    "(100000,100000)u2",
)


def change_store(store: Path, rng: random.Random) -> str:
    """Changes the description or a file of a store, renews its checksums, and returns the name of the change."""
    values = json.loads((store / "store.json").read_text())
    change = rng.choice(("JSON", "JSON", "dtype", "dtype", "counts", "offsets", "ids", "length", "subwords"))
    side = rng.choice(("source", "target"))
    match change:
        case "JSON":
            change, content = change_json(values, rng)
            write_sealed(store / "store.json", content)
        case "dtype":
            values["dtype"] = rng.choice(DTYPES)
            if rng.random() < 0.5:
                _change_ids(store / f"{side}.ids", rng)
                values = json.loads((store / "store.json").read_text()) | {"dtype": values["dtype"]}
            write_sealed(store / "store.json", json.dumps(values).encode())
        case "counts":
            _change_counts(values, rng)
            write_sealed(store / "store.json", json.dumps(values).encode())
        case "offsets":
            _change_offsets(store / f"{side}.offsets", rng)
        case "ids":
            _change_ids(store / f"{side}.ids", rng)
        case "length":
            path = store / rng.choice([name for name in values["files"] if name != "tokenizer.json"])
            content = path.read_bytes()
            write_sealed(
                path, rng.choice((content[:-1], content[: len(content) // 2], b"", content * 2, content + b"x"))
            )
        case "subwords":
            change, content = change_json(json.loads((store / "tokenizer.json").read_bytes()), rng)
            write_sealed(store / "tokenizer.json", content)
            change = f"subwords, {change}"
    return f"store, {change}"


def _change_counts(values: dict[str, Any], rng: random.Random) -> None:
    """Changes numbers of a store's description so that the number of pairs stays the same, or does not."""
    (pairs, weight), *rest = values["parts"]
    less = rng.choice((1, 5, pairs, pairs + 7, 2**40))
    parts = ([[-less, weight], [pairs + less, weight]], [[pairs + less, weight], [-less, weight]], [[-pairs, weight]])
    parts += (
        [[pairs, rng.choice((-1.0, 0, 1e308, 1e-308, math.nan, None, "x", 1e9))]],
        [[pairs]],
        [],
        [[pairs, weight, 1]],
    )
    parts += (
        [[float(pairs), weight]],
        [[pairs, weight], [0, 1.0]],
        [[0, 1.0]] * 2000 + [[pairs, weight]],
        [[True, 1.0]],
    )
    if rng.random() < 0.6:
        values["parts"] = [*rng.choice(parts), *rest]
    else:
        key = rng.choice(("longest", "dropout", "shared"))
        values[key] = rng.choice((-1, 0, 1, 3, 10**9, 2**63, 0.5, 1.0, math.nan, True, False, None, "x"))


def _change_offsets(path: Path, rng: random.Random) -> None:
    """Changes offsets of a store: out of order, negative, or beyond the ids."""
    offsets = np.fromfile(path, "<i8")
    place = rng.randrange(len(offsets))
    match rng.randrange(6):
        case 0:
            offsets[place] = rng.choice((-1, 0, 2**40, 2**62, -(2**63), 2**63 - 1))
        case 1:
            offsets = offsets[::-1].copy()
        case 2:
            offsets += rng.choice((1, -1, 1000, 2**40))
        case 3:
            offsets[:] = rng.choice((0, offsets[-1], -5))
        case 4:
            np.random.default_rng(rng.randrange(1000)).shuffle(offsets)
        case _:
            offsets[place:] = offsets[-1]
    write_sealed(path, offsets.tobytes())


def _change_ids(path: Path, rng: random.Random) -> None:
    """Changes ids of a store: beyond the vocabulary, symbols inside of sentences, bytes of no meaning."""
    ids = np.fromfile(path, "<u2")
    value = rng.choice((0, 1, 2, 3, 0x41, 0x4141, 0x7FFF, 0xFFFF, 500))
    if rng.random() < 0.5:
        ids[:] = value
    else:
        ids[rng.randrange(len(ids))] = value
    write_sealed(path, ids.tobytes())


def write_sealed(path: Path, content: bytes) -> None:
    """Writes a file, and its checksum into the manifest or the description of its folder; keeps its time of change."""
    changed = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(changed, changed))
    if path.name == "store.json":
        path.write_bytes(_with_seal(content))
        return
    manifest = path.parent / ("store.json" if (path.parent / "store.json").exists() else "manifest.json")
    if path == manifest or not manifest.exists():
        return
    values = json.loads(manifest.read_text())
    files = values.get("files", values)
    if path.name in files:
        files[path.name] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    written = json.dumps(values).encode()
    manifest.write_bytes(_with_seal(written) if manifest.name == "store.json" else written)


def _with_seal(content: bytes) -> bytes:
    """Returns the description of a store with the seal that it should have, where it is an object at all."""
    try:
        values = json.loads(content)
        values.pop("seal", None)
        seal = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    except (ValueError, RecursionError, AttributeError, TypeError):
        return content
    return re.sub(rb'(, )?"seal": "[0-9a-f]{64}"', b"", content).rstrip()[:-1] + f', "seal": "{seal}"}}'.encode()


def change_file(path: Path, outside: Path, rng: random.Random) -> str:
    """Puts something else in the place of a file or folder, and returns the name of the change."""
    change = rng.choice(list(FILE_CHANGES))
    was = "folder" if path.is_dir() else "file"
    aside = outside / "copies" / path.name
    shutil.copytree(path, aside) if path.is_dir() else shutil.copy2(path, aside)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    FILE_CHANGES[change](path, outside, rng)
    return f"{was}, {change}"


def _make_folder(path: Path, outside: Path, rng: random.Random) -> None:
    path.mkdir()
    if rng.random() < 0.5:
        (path / "x").write_bytes(b"x")


def _make_socket(path: Path, outside: Path, rng: random.Random) -> None:
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def _make_sparse(path: Path, outside: Path, rng: random.Random) -> None:
    path.touch()
    os.truncate(path, 10 << 30)


def _make_twin(path: Path, outside: Path, rng: random.Random) -> None:
    siblings = [other for other in sorted(path.parent.iterdir()) if other.is_file() and not other.is_symlink()]
    path.write_bytes(rng.choice(siblings).read_bytes() if siblings else b"{}")


FILE_CHANGES: dict[str, Callable[[Path, Path, random.Random], object]] = {
    "missing": lambda path, outside, rng: None,
    "a folder": _make_folder,
    "a FIFO": lambda path, outside, rng: os.mkfifo(path),
    "a socket": _make_socket,
    "link to a device": lambda path, outside, rng: path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/dev/full"))),
    "link to itself": lambda path, outside, rng: path.symlink_to(rng.choice((path.name, ".", ".."))),
    "link to nothing": lambda path, outside, rng: path.symlink_to(outside / rng.choice(("new", "no/where"))),
    "link to a file outside": lambda path, outside, rng: path.symlink_to(outside / "secret.txt"),
    "link to a folder outside": lambda path, outside, rng: path.symlink_to(outside / "folder"),
    "link to its copy outside": lambda path, outside, rng: path.symlink_to(outside / "copies" / path.name),
    "empty": lambda path, outside, rng: path.touch(),
    "10 GB of zeros": _make_sparse,
    "another's content": _make_twin,
}

PLANTED = (
    *(".{}.next", ".{}.writing", ".manifest.next.json", "training/writing-12", "training/writing-13"),
    *("training/store/making", "training/store/begun.json", "training/step-00000013"),
    *("training/step-99999999", "before-restart-1", "metrics.jsonl", "training/damaged-00000012"),
)


def plant_file(run: Path, names: Sequence[str], outside: Path, rng: random.Random) -> str:
    """Puts something at a path that a training writes to later, and returns the name of the change."""
    path = run / rng.choice(PLANTED).format(rng.choice(names))
    if path.exists():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    change = rng.choice([change for change in FILE_CHANGES if change not in ("missing", "link to its copy outside")])
    FILE_CHANGES[change](path, outside, rng)
    return f"planted, {change}"


UNIT = '<tu><tuv xml:lang="en"><seg>a cat {0}</seg></tuv><tuv xml:lang="de"><seg>eine Katze {0}</seg></tuv></tu>\n'
HEAD = '<?xml version="1.0" encoding="{}"?>\n{}<tmx version="1.4"><header srclang="en"/><body>\n'
BOMB = "<!DOCTYPE tmx [<!ENTITY a0 'lol lol lol'>{}]>".format(
    "".join(f"<!ENTITY a{level} '{f'&a{level - 1};' * 10}'>" for level in range(1, 10))
)
QUADRATIC = f"<!DOCTYPE tmx [<!ENTITY a '{'x' * 50_000}'>]>"


def change_memory(outside: Path, rng: random.Random) -> tuple[str, bytes]:
    """Returns the name of a change, and the content of a translation memory with an unusual structure."""
    units = [UNIT.format(number) for number in range(40)]
    place, change = rng.randrange(len(units)), rng.choice(list(MEMORY_CHANGES))
    encoding, doctype = "UTF-8", ""
    if change == "declaration":
        encoding = rng.choice(("UTF-16", "UTF-7", "latin-1", "x", "", "UCS-4", "idna", "hex", "bz2", "unicode_escape"))
    elif change == "entities":
        doctype = rng.choice((BOMB, QUADRATIC, f"<!DOCTYPE tmx [<!ENTITY a SYSTEM 'file://{outside}/secret.txt'>]>"))
        doctype = rng.choice((doctype, f"<!DOCTYPE tmx SYSTEM '{outside}/pipe'>", "<!DOCTYPE tmx [<!ENTITY a '&a;'>]>"))
        units[place] = UNIT.format(rng.choice(("&a9;", "&a;", "&a;" * 20_000, "&nothing;")))
    else:
        units[place] = MEMORY_CHANGES[change](rng)
    content = (HEAD.format(encoding, doctype) + "".join(units) + "</body></tmx>\n").encode()
    if change == "cut":
        content = content[: rng.randrange(len(content))]
    return f"TMX, {change}", gzip.compress(content, 1) if rng.random() < 0.1 else content


def _deep(rng: random.Random) -> str:
    depth = rng.choice((10, 500, 5000, 200_000))
    tag = rng.choice(("hi", "tu", "seg", "ph", "body", "tmx", "x"))
    return UNIT.format(f"<{tag}>" * depth + "x" + f"</{tag}>" * depth)


def _large(rng: random.Random) -> str:
    length = rng.choice((1000, 30_000, 300_000, 3_000_000))
    attributes = " ".join(f'a{number}=""' for number in range(length // 10))
    return rng.choice(
        (
            f'<tu x="{"x" * length}"/>',
            f"<tu {attributes}/>",
            f"<{'x' * length}/>",
            f"<!--{'x' * length}-->",
            f"<?x {'x' * length}?>",
            f"<![CDATA[{'x' * length}]]>",
            UNIT.format("x" * length),
            "<x/>" * (length // 4),
            "<prop>x</prop>" * (length // 10),
            "<tu/>" * (length // 5),
            f"<tu>{'<tuv/>' * (length // 6)}</tu>",
            UNIT.format("<ph/>" * (length // 5)),
        )
    )


def _instructed(rng: random.Random) -> str:
    return rng.choice(
        ('<?xml version="1.0"?>', "<?php x ?>", "<!DOCTYPE x>", "<![CDATA[<tu>]]>", "<!-- -- -->", "<??>")
    )


def _languages(rng: random.Random) -> str:
    code = rng.choice(("", "en", "EN-us", "de_DE", "x" * 10_000, "&#0;", "&#x1b;[31m", "zz"))
    return rng.choice((UNIT.replace('xml:lang="de"', ""), UNIT.replace('"en"', f'"{code}"'), UNIT.replace("xml:", "")))


def _parts(rng: random.Random) -> str:
    return rng.choice(
        (
            *("<tu/>", "<tu><tuv/></tu>", "<tuv xml:lang='en'><seg>x</seg></tuv>", "<seg>x</seg>", "</body><body>"),
            *(f"<tu>{UNIT.format(1)}</tu>", UNIT.replace("<seg>", "<seg><seg>x</seg>"), UNIT.replace("seg", "SEG")),
            *(UNIT.format("</seg><seg>"), "</body></tmx><tmx>", UNIT.format("\t&#10;&#13;"), UNIT.format("&#xD800;")),
            *(UNIT.replace("<tu>", "<tu xmlns='x'>"), UNIT.replace("<tu>", "<x:tu>"), UNIT.format("\x0b"), "x" * 100),
        )
    )


MEMORY_CHANGES: dict[str, Callable[[random.Random], str]] = {
    "deep nesting": _deep,
    "large": _large,
    "instructions": _instructed,
    "languages": _languages,
    "parts": _parts,
    "entities": _parts,
    "declaration": _parts,
    "cut": _parts,
}
