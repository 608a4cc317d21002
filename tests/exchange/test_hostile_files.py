"""Hostile and damaged files: nothing of them runs, and each is refused with a message that names the file."""

import argparse
import builtins
import copyreg
import functools
import io
import os
import pickle
import re
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_models import write_opus_mt

from transduce.commands import main
from transduce.exchange.imported_model import ForeignTensors
from transduce.exchange.pickle_reader import Call, Global
from transduce.exchange.weight_files import plain_values, read_checkpoint, read_npz

CANARY = "canary"


class Calls:
    """An object whose pickle calls a function with arguments."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


class CallsGetattr(Calls):
    """An object that gets a function by `getattr` and then calls it."""

    def __reduce__(self) -> Any:
        return functools.reduce, (getattr, ["format"], "text")


def canary_command(folder: Path) -> str:
    return f"touch {folder / CANARY}"


HOSTILE = {
    "a command": lambda folder: Calls(os.system, canary_command(folder)),
    "eval": lambda folder: Calls(builtins.eval, f"open({str(folder / CANARY)!r}, 'w')"),
    "exec": lambda folder: Calls(builtins.exec, f"open({str(folder / CANARY)!r}, 'w')"),
    "open": lambda folder: Calls(builtins.open, str(folder / CANARY), "w"),
    "getattr": lambda folder: Calls(getattr, "", "format"),
    "a function by way of another": lambda folder: CallsGetattr(None),
    "import": lambda folder: Calls(builtins.__import__, "antigravity"),
    "an extension": lambda folder: Calls(copyreg.add_extension, "os", "system", 7),
    "a function of NumPy": lambda folder: Calls(np.load, str(folder / "other.npy")),
    "an array of objects": lambda folder: np.array([Calls(os.system, canary_command(folder))]),
    "torch.load": lambda folder: Calls(torch.load, str(folder / "other.pt")),
    "a class": lambda folder: torch.nn.Linear(2, 3),
}


def model_of(value: Any) -> Any:
    return value.get("model") if isinstance(value, dict) else value


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_of_a_checkpoint_is_called(tmp_path: Path, name: str, hidden: bool, legacy: bool) -> None:
    gadget = HOSTILE[name](tmp_path)
    value = {
        "args": None,
        "model": OrderedDict(weight=torch.ones(2), deep=[{"x": (1, [gadget])}] if hidden else gadget),
    }
    path = tmp_path / "model.pt"
    torch.save(value, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(ValueError, match=r"model\.pt names .*Nothing of it was run"):
        read_checkpoint(path, model_of)
    assert not (tmp_path / CANARY).exists()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("numpy", ["numpy.core", "numpy._core"])
def test_the_best_bleu_of_fairseq_is_a_scalar_of_numpy_and_stays_a_record(
    tmp_path: Path, numpy: str, legacy: bool
) -> None:
    """`fairseq-train --eval-bleu` saves its best BLEU as a `numpy.float64`; NumPy 2 renamed `numpy.core`."""
    best, path = np.float64(27.31), tmp_path / "checkpoint_best.pt"
    value = {
        "args": argparse.Namespace(arch="transformer", clip_norm=np.float32(0.1)),
        "model": {"weight": torch.arange(6.0).view(2, 3)},
        "optimizer_history": [{"best_loss": best, "lr_scheduler_state": {"best": best}, "num_updates": np.int64(9)}],
        "extra_state": {"best": best, "val_loss": best, "counts": np.array([5, 4, 3, 2])},
    }
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=not legacy)
    written = f"{np.float64.__module__}._core.multiarray\n".encode()
    renamed = f"{numpy}.multiarray\n".encode()
    if legacy:
        assert written in buffer.getvalue()
        path.write_bytes(buffer.getvalue().replace(written, renamed))
    else:
        with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(path, "w") as target:
            for entry in source.infolist():
                target.writestr(entry.filename, source.read(entry).replace(written, renamed))
    read, tensors = read_checkpoint(path, model_of)
    assert tensors["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert plain_values(read["args"]) == {"arch": "transformer", "clip_norm": "a Call"}
    assert read["extra_state"]["best"].function == Global(f"{numpy}.multiarray", "scalar")


def archive(path: Path, content: bytes, storages: dict[str, bytes] = {}, compression: int = 0) -> None:  # noqa: B006
    """Writes a checkpoint with a pickle and storages of any bytes."""
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("archive/data.pkl", content)
        for key, storage in storages.items():
            file.writestr(f"archive/data/{key}", storage)


def u(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


PICKLES = {
    "nothing": b"",
    "no pickle": b"\x80\x02hello.",
    "no end": b"\x80\x02}",
    "two values": b"NN.",
    "a missing mark": b"\x80\x02(u.",
    "a mark for a value": b"\x80\x02(.",
    "a memo that is not there": b"\x80\x02h\x05.",
    "an old instance": b"(ios\nsystem\n.",
    "an object": b"(cos\nsystem\no.",
    "a name": b"cos\nsystem\n.",
    "a name on the stack": b"\x80\x04" + u("posix") + u("system") + b"\x93.",
    "a name that is a number": b"\x80\x04K\x01" + u("system") + b"\x93.",
    "an extension": b"\x82\x07.",
    "a keyword call": b"\x80\x04ccollections\nOrderedDict\n)}\x92.",
    "a persistent name": b"Pos.system\n.",
    "state of a name": b"\x80\x02cargparse\nNamespace\n}" + u("x") + b"K\x01sb.",
    "a call of a string": b"\x80\x02" + u("system") + b"(K\x01tR.",
    "a call without a tuple": b"\x80\x02ccollections\nOrderedDict\n]R.",
    "a set of a number": b"\x80\x02c__builtin__\nset\nK\x01\x85R.",
    "an item of a number": b"\x80\x02K\x01K\x02K\x03s.",
    "an odd number of items": b"\x80\x02}(K\x02u.",
    "an append to a dictionary": b"\x80\x02}K\x01a.",
    "a key that is a list": b"\x80\x02}]K\x01s.",
    "a string beyond the file": b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"abc.",
    "a long beyond the file": b"\x8b" + struct.pack("<i", 2**31 - 1) + b"\x01.",
    "a long of a negative size": b"\x8b" + struct.pack("<i", -5) + b"\x01.",
    # A tuple of itself twice, 60 times: its hash would take 2^60 steps.
    "a key that is a bomb": b"\x80\x02})" + b"q\x00h\x00\x86" * 60 + b"K\x01s.",
    "a dictionary without a model": b"\x80\x02}.",
    "a model that is a list": b"\x80\x02}" + u("model") + b"]s.",
    "an allocation": b"\x80\x02c__builtin__\nbytearray\n\x8a\x05" + (3 * 10**9).to_bytes(5, "little") + b"\x85R.",
    "a storage that is a bomb": b"\x80\x02}" + u("model") + b"})" + b"q\x00h\x00\x86" * 60 + b"Q" + u("x") + b"0s.",
}


@pytest.mark.parametrize("name", PICKLES)
@pytest.mark.parametrize("zipped", [True, False])
def test_pickles_that_torch_does_not_write_are_refused(tmp_path: Path, name: str, zipped: bool) -> None:
    path = tmp_path / "model.pt"
    if zipped:
        archive(path, PICKLES[name])
    else:
        magic, rest = pickle.dumps(0x1950A86A20F9469CFC6C, 2), [pickle.dumps(value, 2) for value in (1001, {}, [])]
        path.write_bytes(magic + rest[0] + pickle.dumps({"little_endian": True}, 2) + PICKLES[name] + rest[2])
    with pytest.raises(ValueError, match=re.escape(str(path))):
        read_checkpoint(path, model_of)


def tensor_pickle(shape: Any, strides: Any, offset: Any = 0, count: int = 6, storage: str = "FloatStorage") -> bytes:
    """Returns the pickle of a model with one tensor."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return value.reference if isinstance(value, Reference) else None

    class Reference:
        reference = ("storage", getattr(torch, storage), "0", "cpu", count)

    class Tensor:
        def __reduce__(self) -> Any:
            return torch._utils._rebuild_tensor_v2, (Reference(), offset, shape, strides, False, OrderedDict())

    buffer = io.BytesIO()
    Pickler(buffer, 2).dump({"model": {"weight": Tensor()}})
    return buffer.getvalue()


BYTES = np.arange(6, dtype=np.float32).tobytes()


def test_a_tensor_within_its_storage_is_read(tmp_path: Path) -> None:
    archive(tmp_path / "model.pt", tensor_pickle((2, 2), (1, 2), 1), {"0": BYTES})
    _, tensors = read_checkpoint(tmp_path / "model.pt", model_of)
    assert tensors["weight"].tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((2, 3), (3, 1), 1),
        ((2, 3), (3, 1), -1),
        ((2, 3), (-3, 1), 3),
        ((2, 3), (4, 1), 0),
        ((7,), (1,), 0),
        ((7,), (0,), 0),
        ((2**40,), (0,), 0),
        ((2**62, 2**62), (1, 1), 0),
        ((-2, -3), (3, 1), 0),
        ((2, 3), (3,), 0),
        ((2, 2.0), (2, 1), 0),
        ((True, 3), (3, 1), 0),
        ((1,) * 40, (1,) * 40, 0),
        ((2, 3), (3, 1), 2**70),
        ([2, 3], (3, 1), 0),
        (("2", 3), (3, 1), 0),
        ((2, 3), (3, 1), None),
    ],
)
def test_a_tensor_beyond_its_storage_is_refused(tmp_path: Path, shape: Any, strides: Any, offset: Any) -> None:
    archive(tmp_path / "model.pt", tensor_pickle(shape, strides, offset), {"0": BYTES})
    with pytest.raises(ValueError, match=r"reaches beyond its 6 stored numbers|described in a way that torch does not"):
        read_checkpoint(tmp_path / "model.pt", model_of)


def test_one_storage_under_thousands_of_names_is_refused(tmp_path: Path) -> None:
    shared = torch.zeros(10_000)
    torch.save({"model": {f"w{number}": shared for number in range(2_000)}}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="has tensors of more than 8 times its size"):
        read_checkpoint(tmp_path / "model.pt", model_of)


def test_one_state_for_thousands_of_objects_is_refused(tmp_path: Path) -> None:
    state = {f"k{number}": number for number in range(20_000)}
    objects = []
    for _ in range(400):
        objects.append(argparse.Namespace())
        objects[-1].__dict__ = state
    torch.save({"model": {}, "args": objects}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"sets more than 5,000,000 attributes"):
        read_checkpoint(tmp_path / "model.pt", model_of)


class MakesDictionary:
    """An object whose pickle makes a dictionary of pairs that all of these objects share."""

    pairs = [[f"k{number}", number] for number in range(20_000)]  # noqa: RUF012

    def __reduce__(self) -> Any:
        return OrderedDict, (self.pairs,)


def test_one_list_of_pairs_for_hundreds_of_dictionaries_is_refused(tmp_path: Path) -> None:
    torch.save({"model": {}, "args": [MakesDictionary() for _ in range(400)]}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"sets more than 5,000,000 attributes"):
        read_checkpoint(tmp_path / "model.pt", model_of)


def test_a_header_that_is_no_python_is_refused(tmp_path: Path) -> None:
    header = b"{'descr': ("
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("a.npy", content)
    with pytest.raises(ValueError, match=r"'a\.npy' is not an array"):
        read_npz(tmp_path / "model.npz")


def test_a_single_number_in_the_place_of_a_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match=r"file: positions is a single number"):
        ForeignTensors({"positions": torch.tensor(1.0)}, "file").shape("positions")


@pytest.mark.parametrize("name", ["model.npz", "model.pt"])
def test_pipes_are_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match="is not a file"):
        read_npz(tmp_path / name) if name.endswith("npz") else read_checkpoint(tmp_path / name, model_of)


def test_settings_that_are_bombs_are_named_by_their_type() -> None:
    bomb: Any = ()
    for _ in range(60):
        bomb = (bomb, bomb)
    cycle = Call(Global("omegaconf.nodes", "AnyNode"), (), {})
    cycle.state["_val"] = cycle
    state = {"bomb": bomb, "list": [1, "x"], "cycle": cycle, "inside": Call(Global("fairseq.x", "Y"), (), {"z": bomb})}
    settings = plain_values(Call(Global("argparse", "Namespace"), (), state))
    assert settings == {"bomb": "a tuple", "list": [1, "x"], "cycle": "a Call", "inside": "a Call"}


@pytest.mark.parametrize(
    "storages", [{}, {"0": b""}, {"0": BYTES[:-1]}, {"1": BYTES}, {"../0": BYTES, "/etc/x": BYTES}]
)
def test_a_storage_that_is_missing_or_short_is_refused_and_no_file_is_written(
    tmp_path: Path, storages: dict[str, bytes]
) -> None:
    archive(tmp_path / "model.pt", tensor_pickle((2, 3), (3, 1)), storages)
    with pytest.raises(ValueError, match=r"reaches beyond its [05] stored numbers"):
        read_checkpoint(tmp_path / "model.pt", model_of)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_compressed_files_are_refused_before_they_are_read(tmp_path: Path) -> None:
    archive(tmp_path / "model.pt", tensor_pickle((2, 3), (3, 1)), {"0": bytes(10**7)}, zipfile.ZIP_DEFLATED)
    assert (tmp_path / "model.pt").stat().st_size < 10**5
    with pytest.raises(ValueError, match="save it again without compression"):
        read_checkpoint(tmp_path / "model.pt", model_of)
    np.savez_compressed(tmp_path / "model.npz", weight=np.zeros(10**6))
    with pytest.raises(ValueError, match="has the compressed entry"):
        read_npz(tmp_path / "model.npz")


@pytest.mark.parametrize("legacy", [False, True])
def test_every_truncation_and_every_changed_byte_is_refused_or_gives_the_tensors(tmp_path: Path, legacy: bool) -> None:
    path, model = tmp_path / "model.pt", {"weight": torch.randn(40, 30), "bias": torch.zeros(30)}
    torch.save({"model": model}, path, _use_new_zipfile_serialization=not legacy)
    content, refused = path.read_bytes(), 0
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read_checkpoint(path, model_of)
    for place in range(0, len(content), 61):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            tensors = read_checkpoint(path, model_of)[1]
        except ValueError:
            refused += 1
        else:
            assert all(tensor.numel() <= 1230 for tensor in tensors.values())
    assert refused > 3


def test_entries_that_overlap_are_refused(tmp_path: Path) -> None:
    archive(tmp_path / "model.pt", tensor_pickle((2, 3), (3, 1)), {"0": bytes(5000)})
    content = (tmp_path / "model.pt").read_bytes()
    directory = content.index(b"PK\x01\x02")
    entry = content.index(b"PK\x01\x02", directory + 4)
    end = content.index(b"PK\x05\x06")
    many = content[:end] + content[entry:end] * 50
    tail = bytearray(content[end:])
    struct.pack_into("<HHI", tail, 8, 52, 52, len(many) - directory)
    (tmp_path / "model.pt").write_bytes(many + bytes(tail))
    with pytest.raises(ValueError, match=r"its entries claim more than its [\d,]+ bytes"):
        read_checkpoint(tmp_path / "model.pt", model_of)


def npz(path: Path, header: dict[str, Any], content: bytes) -> None:
    """Writes an npz with one array, whose header says anything."""
    text = (repr(header).ljust(117) + "\n").encode()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("weight.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content)


@pytest.mark.parametrize(
    ("descr", "order", "shape", "content"),
    [
        ("|O", False, (1,), pickle.dumps(Calls(os.getcwd))),
        ("<f4", False, (2**40,), bytes(8)),
        ("<f4", False, (3,), bytes(8)),
        ("<f4", False, (-2,), bytes(8)),
        ("<f4", True, (2,), bytes(8)),
        (">f4", False, (2,), bytes(8)),
        ("<f8", False, (1,), bytes(8)),
        ("<U2", False, (1,), bytes(8)),
        ("no type", False, (1,), bytes(8)),
    ],
)
def test_arrays_that_marian_does_not_write_are_refused(
    tmp_path: Path, descr: str, order: bool, shape: tuple[int, ...], content: bytes
) -> None:
    npz(tmp_path / "model.npz", {"descr": descr, "fortran_order": order, "shape": shape}, content)
    with pytest.raises(ValueError, match=r"model\.npz: 'weight\.npy' is "):
        read_npz(tmp_path / "model.npz")
    npz(tmp_path / "model.npz", {"descr": "<f4", "fortran_order": False, "shape": (2,)}, bytes(8))
    assert read_npz(tmp_path / "model.npz")["weight"].tolist() == [0, 0]


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip", b"PK\x03\x04" + bytes(99)])
def test_files_that_are_no_zip_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.npz"):
        read_npz(tmp_path / "model.npz")
    with pytest.raises(ValueError, match=r"model\.npz"):
        read_checkpoint(tmp_path / "model.npz", model_of)


def test_weights_of_another_type_shape_or_value_are_refused() -> None:
    tensors = {"int": torch.ones(2, dtype=torch.int64), "nan": torch.tensor([1.0, np.nan]), "two": torch.ones(2)}
    foreign = ForeignTensors(tensors, "a file")
    for name, shape, fault in (
        ("int", 2, "int64"),
        ("nan", 2, "NaN"),
        ("two", 3, "settings ask for"),
        ("none", 2, "lacks"),
    ):
        with pytest.raises(ValueError, match=fault):
            foreign.take(name, shape)
    with pytest.raises(ValueError, match="has weights that no part"):
        ForeignTensors(tensors, "a file").finish()


def test_the_command_refuses_with_code_2_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_opus_mt(tmp_path / "opus")
    weights = tmp_path / "opus" / "model.safetensors"
    content = weights.read_bytes()
    (tmp_path / "opus" / "pytorch_model.bin").write_bytes(b"")
    for damaged in (b"", content[:1000], b"\xff" * 8 + content[8:]):
        weights.write_bytes(damaged)
        assert code_of("import", tmp_path / "opus", "--out", tmp_path / "run") == 2
        assert "model.safetensors" in capsys.readouterr().err
    weights.unlink()
    torch.save(
        {"model.shared.weight": Calls(os.system, canary_command(tmp_path))}, tmp_path / "opus" / "pytorch_model.bin"
    )
    assert code_of("import", tmp_path / "opus", "--out", tmp_path / "run") == 2
    assert "pytorch_model.bin names 'posix.system'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / CANARY).exists()


def test_the_command_imports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_opus_mt(tmp_path / "opus")
    arguments = ("import", tmp_path / "opus", "--out", tmp_path / "run")
    assert code_of(*arguments, "--from", "en", "--to", "de") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{tmp_path / 'run'}: 24 features wide")
    assert "no licence was checked" in printed.err
    assert code_of("info", tmp_path / "run", "--verify") == 0
    assert code_of(*arguments) == 2
    assert "is not empty" in capsys.readouterr().err


def code_of(*arguments: object) -> object:
    with pytest.raises(SystemExit) as leaving:
        main(list(map(str, arguments)))
    return leaving.value.code
