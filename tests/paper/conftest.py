"""A scale at which a training takes a second."""

import pytest

from transduce.bench import timing
from transduce.paper.experiment_scales import Scale


@pytest.fixture(autouse=True)
def small_products(monkeypatch):
    """A trial also measures the machine's rate of products: here of small ones."""
    monkeypatch.setattr(timing, "MATRIX_SIZES", {"cpu": 64})


@pytest.fixture
def tiny(micro):
    """Returns a scale on the micro corpus."""

    def files(name):
        return {"source": str(micro / f"{name}.en"), "target": str(micro / f"{name}.de")}

    data = {"train": files("train"), "validation": files("validation"), "test": {"test": files("test")}}
    training = {
        "batch_tokens": 512,
        "precision": "float32",
        "schedule": {"kind": "inverse_square_root", "warmup": 4, "peak": 0.01},
        "validate_every": None,
        "save_every": 3,
    }
    values = {"data": data, "subwords": {"kind": "bpe", "size": 320}, "training": training}
    return Scale(
        "small",
        "the micro corpus",
        "en-de",
        values,
        width_divisor=16,
        layers_divisor=6,
        steps=6,
        operations=2e9,
        minutes=0.02,
    )
