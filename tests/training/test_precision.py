"""The loss scale of float16, and the precision that `auto` selects."""

import pytest
import torch

from transduce.training.precision import Precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("capabilities", "name"),
    [
        ({"avx512_bf16": True, "cpu_name": "AMD EPYC"}, "bfloat16"),
        ({"avx512_bf16": True, "cpu_name": "Intel Xeon"}, "float32"),
        ({"avx512_bf16": True, "amx_bf16": True, "cpu_name": "Intel Xeon"}, "bfloat16"),
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"avx512_f": True}, "float32"),
    ],
)
def test_auto_is_bfloat16_where_the_processor_multiplies_it_faster(capabilities, name, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert Precision("auto", CPU).name == name


def test_auto_is_float32_where_torch_does_not_know_the_processor(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert Precision("auto", CPU).name == "float32"


@pytest.mark.parametrize(("capability", "name"), [((9, 0), "bfloat16"), ((8, 0), "bfloat16"), ((7, 5), "float32")])
def test_auto_is_bfloat16_on_a_gpu_that_multiplies_it(monkeypatch, capability, name):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    assert Precision("auto", torch.device("cuda")).name == name


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_only_float16_scales(name):
    assert Precision(name, CPU).scale == 1


def test_the_scale_halves_at_an_overflow_and_doubles_after_finite_steps(monkeypatch):
    monkeypatch.setattr(Precision, "growth_interval", 3)
    precision = Precision("float16", CPU)
    scales = []
    for finite in (True, False, True, True, True, True, True, True, False):
        precision.update_scale(finite)
        scales.append(precision.scale / 2**15)
    assert scales == [1, 0.5, 0.5, 0.5, 1, 1, 1, 2, 1]


@pytest.mark.parametrize(
    ("name", "kind"), [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)]
)
def test_products_are_in_the_chosen_precision(name, kind):
    with Precision(name, CPU).cast():
        assert (torch.ones(2, 3) @ torch.ones(3, 5)).dtype == kind
