"""Positions of section 3.5, in the layout of the paper and in that of the released code."""

import math

import pytest
import torch

from transduce.model.embedding import Learned, Sinusoidal, sinusoids

D_MODEL = 512
LAYOUTS = ["interleaved", "halves", "paper-halves"]


def spacing(layout: str) -> float:
    """Returns the number of pairs over which the exponents go from 0 to 1."""
    return D_MODEL / 2 - 1 if layout == "halves" else D_MODEL / 2


def waves(layout: str, length: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns all sines and all cosines, each [length pairs]."""
    table = Sinusoidal(layout=layout).build(D_MODEL)(0, length).double()
    if layout != "interleaved":
        return table[:, : D_MODEL // 2], table[:, D_MODEL // 2 :]
    return table[:, 0::2], table[:, 1::2]


@pytest.mark.parametrize(
    ("layout", "position", "column", "value"),
    [
        ("interleaved", 0, 0, 0.0),
        ("interleaved", 0, 1, 1.0),
        ("interleaved", 1, 0, 0.8414709848),  # sin 1
        ("interleaved", 1, 1, 0.5403023059),  # cos 1
        ("interleaved", 50, 256, 0.4794255386),  # sin(50 / 10000^(256/512)) = sin 0.5
        ("interleaved", 50, 257, 0.8775825619),  # cos 0.5
        ("interleaved", 300, 128, math.sin(30.0)),  # 10000^(128/512) = 10
        ("halves", 1, 0, 0.8414709848),
        ("halves", 1, 256, 0.5403023059),
        ("halves", 300, 255, 0.0299955002),  # sin 0.03: the last exponent is 1
        ("halves", 300, 511, 0.9995500337),  # cos 0.03
        ("halves", 0, 255, 0.0),
        ("paper-halves", 50, 128, 0.4794255386),  # sin(50 / 10000^(256/512)), as `interleaved` has it in column 256
        ("paper-halves", 50, 384, 0.8775825619),
    ],
)
def test_values(layout: str, position: int, column: int, value: float) -> None:
    assert Sinusoidal(layout=layout).build(D_MODEL)(0, 301)[position, column].item() == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_value_is_the_formulas(layout: str) -> None:
    sines, cosines = waves(layout)
    for position in (0, 1, 2, 77, 511, 512, 599):
        for pair in range(D_MODEL // 2):
            angle = position / 10000 ** (pair / spacing(layout))
            assert sines[position, pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert cosines[position, pair].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize(("layout", "longest"), [("interleaved", 9647), ("halves", 10000), ("paper-halves", 9647)])
def test_wavelengths_are_geometric_from_2_pi_towards_10000_times_2_pi(layout: str, longest: int) -> None:
    sines, cosines = waves(layout)
    wavelengths = 2 * math.pi / torch.atan2(sines[1], cosines[1])
    assert wavelengths[0].item() == pytest.approx(2 * math.pi, rel=1e-6)
    assert wavelengths[-1].item() == pytest.approx(longest * 2 * math.pi, rel=1e-4)
    ratios = wavelengths[1:] / wavelengths[:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 10000 ** (1 / spacing(layout))), rtol=1e-5, atol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("offset", [1, 2, 13, 100, 250])
def test_the_position_k_words_further_is_a_linear_function_of_the_position(layout: str, offset: int) -> None:
    """Section 3.5: each pair of a sine and a cosine is rotated by k times its rate."""
    table = Sinusoidal(layout=layout).build(D_MODEL)(0, 600).double()
    rotation = torch.zeros(D_MODEL, D_MODEL, dtype=torch.float64)
    for pair in range(D_MODEL // 2):
        sine, cosine = (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, D_MODEL // 2 + pair)
        angle = offset / 10000 ** (pair / spacing(layout))
        rotation[sine, sine] = rotation[cosine, cosine] = math.cos(angle)
        rotation[sine, cosine], rotation[cosine, sine] = math.sin(angle), -math.sin(angle)
    torch.testing.assert_close(table[:-offset] @ rotation.T, table[offset:], rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sinusoids_go_on_beyond_the_table_they_began_with(layout: str) -> None:
    positions = Sinusoidal(layout=layout).build(14).double()
    assert torch.equal(positions(700, 9), sinusoids(709, 14, layout)[700:].double())
    assert torch.equal(positions(3, 9), sinusoids(12, 14, layout)[3:].double())
    assert positions.max_positions is None
    assert not list(positions.parameters())
    assert not positions.state_dict()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("first", [1, 2, 9])
def test_positions_may_begin_at_another_number(layout: str, first: int) -> None:
    positions = Sinusoidal(layout=layout, first=first).build(14)
    assert torch.equal(positions(0, 5), sinusoids(14, 14, layout)[first : first + 5])
    assert torch.equal(positions(507, 9), sinusoids(600, 14, layout)[507 + first : 516 + first])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_model_of_width_two_has_positions(layout: str) -> None:
    angles = torch.arange(5, dtype=torch.float64)
    expected = torch.stack([angles.sin(), angles.cos()], dim=1).float()
    torch.testing.assert_close(sinusoids(5, 2, layout), expected)


def test_learned_positions_are_a_parameter_and_end_where_they_end() -> None:
    positions = Learned(max_positions=12).build(14)
    torch.nn.init.normal_(positions.weight)
    assert positions.weight.shape == (12, 14)
    assert torch.equal(positions(3, 9), positions.weight[3:])
    with pytest.raises(ValueError, match="13 tokens is longer than the 12 learned positions"):
        positions(4, 9)
