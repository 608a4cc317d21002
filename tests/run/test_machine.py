"""What the machine is told."""

import os
import subprocess
import sys

import pytest
import torch

from transduce.machine import choose_device, environment, keep_pages, repeat_bits


def test_repeatable_bits_fill_no_memory():
    try:
        repeat_bits()
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert not torch.utils.deterministic.fill_uninitialized_memory
    finally:
        torch.use_deterministic_algorithms(False)


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
    with pytest.raises(ValueError, match="there is no GPU 2 here: they are counted from 0, and there are 2"):
        choose_device("cuda:2")


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_memory_is_left_alone_where_the_library_is_another(monkeypatch, platform):
    monkeypatch.setattr("transduce.machine.sys.platform", platform)
    monkeypatch.setattr("transduce.machine.ctypes.CDLL", lambda name: pytest.fail(f"loads {name}"))
    keep_pages()


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "5000"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None"), ({"GOMP_SPINCOUNT": "7"}, "7")],
)
def test_idle_threads_do_not_spin_for_long(given, found):
    """The variable counts only if it is set before torch is first imported, and is the user's where they set one."""
    script = "import os, sys, transduce; assert 'torch' not in sys.modules; print(os.environ.get('GOMP_SPINCOUNT'))"
    own = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    printed = subprocess.check_output([sys.executable, "-c", script], timeout=60, env={**own, **given}, text=True)
    assert printed == f"{found}\n"


def test_the_environment_is_told_whole():
    found = environment(torch.device("cpu"))
    assert found.keys() == {"torch", "threads", "device", "processor", "processes"}
    assert (found["torch"], found["device"]) == (torch.__version__, "cpu")
