"""Table 1: counted operations grow as the paper states; paths and chains of products are those of each layer."""

import math

import pytest
import torch

from transduce.paper import table1
from transduce.paper.counting import kept_for_backward
from transduce.paper.layer_kinds import KINDS, Shape, longest_path
from transduce.paper.table1 import GRID, MIDDLE, exponent, operations

KIND = {kind.name: kind for kind in KINDS}
SMALL = {"n": [16, 32, 64], "d": [8, 16, 32], "k": [4, 8, 16], "r": [2, 4, 8]}


@pytest.mark.parametrize(("kind", "variable"), [(kind, name) for kind in KINDS for name in kind.powers])
def test_counted_arithmetic_grows_as_stated(kind, variable):
    values = [value for value in GRID[variable] if value <= 1024]
    shapes = [MIDDLE[variable]._replace(**{variable: value}) for value in values]
    counts = [operations(kind.build(shape), shape) for shape in shapes]
    assert exponent(values, counts) == pytest.approx(kind.powers[variable], abs=0.05)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_only_a_recurrence_waits_for_each_word(kind):
    chains = [table1._sequential_products(kind, n) for n in (8, 16, 32)]
    assert chains == ([8, 16, 32] if kind.name == "recurrent" else [chains[0]] * 3)
    assert chains[0] <= 8


def test_equal_numbers_are_printed_once():
    assert (table1._join_distinct([2, 2, 2]), table1._join_distinct([8, 16, 32])) == ("2", "8, 16, 32")


@pytest.mark.parametrize("n", [9, 17, 30])
def test_the_longest_path_is_that_of_the_mechanism(n):
    shape = Shape(n=n, d=4, k=3, r=2)
    assert longest_path(KIND["self-attention"], shape) == 1
    assert longest_path(KIND["recurrent"], shape) == n - 1
    assert longest_path(KIND["convolution, contiguous"], shape) == n - 1  # one position on either side
    assert longest_path(KIND["convolution, contiguous"], shape._replace(k=5)) == math.ceil((n - 1) / 2)
    assert longest_path(KIND["convolution, dilated"], shape) == math.ceil(math.log(n, 3) - 1e-9)
    assert longest_path(KIND["self-attention, r neighbours"], shape) == math.ceil((n - 1) / 2)


def test_a_position_wise_map_connects_no_positions():
    assert longest_path(KIND["separable convolution: by position"], Shape(n=5, d=4)) is None


def test_memory_for_the_backward_pass_counts_activations_once():
    linear, states = torch.nn.Linear(8, 4), torch.randn(1, 16, 8)
    assert kept_for_backward(linear, states) == states.nbytes  # the weight's gradient needs the input
    assert kept_for_backward(torch.nn.Sequential(linear, torch.nn.Tanh()), states) == states.nbytes + 16 * 4 * 4


def test_only_the_memory_of_full_attention_grows_with_the_square_of_the_length():
    kept = {kind.name: [table1._kept_mebibytes(kind, n) for n in (512, 1024)] for kind in KINDS}
    ratios = {name: long / short for name, (short, long) in kept.items()}
    assert ratios.pop("self-attention") > 3
    assert max(ratios.values()) < 2.1


def test_the_table_is_printed_and_drawn_from_what_was_found(tmp_path, monkeypatch, log_lines):
    monkeypatch.setattr(table1, "GRID", SMALL)
    monkeypatch.setattr(table1, "MIDDLE", dict.fromkeys(SMALL, Shape(n=32, d=16, k=4, r=4)))
    monkeypatch.setattr(table1, "SENTENCES", dict.fromkeys(SMALL, 1))
    monkeypatch.setattr(table1, "WIDTHS", [16])
    monkeypatch.setattr(table1, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(table1, "MEMORY_LENGTHS", [1024, 2048])
    monkeypatch.setattr(table1, "PATHS", {"n": [5, 9], "k": [3], "r": [2]})
    rows = table1.measure_layers(torch.device("cpu"), 1)
    claims = table1.measure_claims(torch.device("cpu"), 1)
    measurements = table1.LayerMeasurements(rows, claims)
    text = table1.as_text(measurements)
    assert log_lines == [kind.name for kind in KINDS]
    assert "| self-attention | O(n²·d) | n^2.00, d^1.00 |" in text
    assert "| recurrent | O(n) | 9 |  |  | 8 |" in text
    assert "| recurrent | 0.06 | 0.13 | 1.00 |" in text  # 16 float32 numbers a position
    assert all(ratio == pytest.approx(0.5, abs=0.01) for _, _, ratio in claims.separable)
    # QKᵀ and the product with V are 2 n² d each way, a recurrence n d²: they meet at half the width.
    assert claims.crossover[16].counted == 8
    assert "Over the last octaves up to d 16: self-attention" in text
    assert claims.recurrences == {4: 4.0, 8: 8.0, 16: 16.0}
    table1.draw(measurements, tmp_path / "table1.svg")
    assert (tmp_path / "table1.svg").read_text("utf-8").count("<svg") == 1
