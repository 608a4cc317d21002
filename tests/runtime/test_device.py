"""Device, threads, memory and numerics."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transduce.runtime.device import (
    choose_device,
    describe_environment,
    keep_freed_memory,
    processor_name,
    use_deterministic_algorithms,
)
from transduce.runtime.torch_compile import compile_on_gpu


def test_deterministic_mode_does_not_fill_new_tensors():
    use_deterministic_algorithms(torch.device("cuda"))
    assert not torch.are_deterministic_algorithms_enabled()
    use_deterministic_algorithms(torch.device("cpu"))
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.utils.deterministic.fill_uninitialized_memory


def test_auto_is_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert choose_device("auto").type == "cuda"
    used = []
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", used.append)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert used == [1]
    with pytest.raises(ValueError, match="device cuda:2: there are 2 GPUs here, and the first is cuda:0"):
        choose_device("cuda:2")


class Compiled:
    """A model that records whether it was compiled."""

    is_compiled = False

    def compile(self):
        self.is_compiled = True


def test_a_model_is_compiled_only_on_a_gpu_with_a_compiler(monkeypatch, tmp_path, log_lines):
    monkeypatch.setenv("CC", "cc")
    monkeypatch.setattr("transduce.runtime.torch_compile.sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: True)
    (tmp_path / "Python.h").touch()
    for device, compiled in (("cpu", False), ("cuda", True)):
        model = Compiled()
        compile_on_gpu(model, torch.device(device))
        assert (model.is_compiled, log_lines) == (compiled, [])
    (tmp_path / "Python.h").unlink()
    model = Compiled()
    compile_on_gpu(model, torch.device("cuda"))
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: False)  # a GPU that Triton does not support
    compile_on_gpu(model, torch.device("cuda"))
    assert not model.is_compiled
    assert len(log_lines) == 2
    assert all(message.startswith("training is slower than it could be") for message in log_lines)


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_another_c_library_is_not_loaded(monkeypatch, platform):
    monkeypatch.setattr("transduce.runtime.device.sys.platform", platform)
    monkeypatch.setattr("transduce.runtime.device.ctypes.CDLL", lambda name: pytest.fail(f"loads {name}"))
    keep_freed_memory()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "5000"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None"), ({"GOMP_SPINCOUNT": "7"}, "7")],
)
def test_idle_threads_do_not_spin_for_long(variables, expected):
    """The variable counts only if it is set before torch is imported; a value of the user stays."""
    script = "import os, sys, transduce; assert 'torch' not in sys.modules; print(os.environ.get('GOMP_SPINCOUNT'))"
    own = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    printed = subprocess.check_output([sys.executable, "-c", script], timeout=60, env={**own, **variables}, text=True)
    assert printed == f"{expected}\n"


def test_the_environment_has_every_key():
    environment = describe_environment(torch.device("cpu"))
    assert environment.keys() == {"torch", "threads", "device", "processor", "machine"}
    assert (environment["torch"], environment["device"]) == (torch.__version__, "cpu")
    assert environment["processor"] == torch.backends.cpu.get_cpu_capability()
    assert environment["machine"] == processor_name()


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="the system has no /proc/cpuinfo")
def test_the_name_of_the_processor():
    assert processor_name()
    assert processor_name() in Path("/proc/cpuinfo").read_text("utf-8") or processor_name() == platform.machine()


SUBNORMAL = """
import torch
from transduce.runtime.device import flush_subnormals
{before}
torch.set_num_threads(2)
print(int((torch.full((2, 1_000_000), 1e-30) * 1e-10).count_nonzero()))
"""


@pytest.mark.parametrize(("before", "nonzero"), [("", 2_000_000), ("flush_subnormals()", 0)])
def test_subnormal_numbers_are_zero_in_all_threads(before, nonzero):
    script = SUBNORMAL.format(before=before)
    ended = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120)
    assert int(ended.stdout) == nonzero
