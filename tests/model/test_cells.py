"""Recurrent cells against torch's with the same weights; the factorised LSTM against an LSTM."""

import pytest
import torch
from torch import nn

from transduce.paper.models.cells import FactorisedLstm, Gru, Lstm, Plain, run_cell

INPUTS, D_MODEL, ROWS, LENGTH = 5, 7, 3, 6


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def states(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("spec", "torch_class"), [(Lstm(), nn.LSTM), (Gru(), nn.GRU), (Plain(), nn.RNN)])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_cell_is_torchs_own(spec, torch_class, backwards):
    torch.manual_seed(1)
    cell, torch_cell = spec.build(INPUTS, D_MODEL).double(), torch_class(INPUTS, D_MODEL, batch_first=True).double()
    with torch.no_grad():
        for linear, name in ((cell.from_input, "ih"), (cell.from_state, "hh")):
            getattr(torch_cell, f"weight_{name}_l0").copy_(linear.weight)
            getattr(torch_cell, f"bias_{name}_l0").copy_(linear.bias)
    inputs, initial = states(2, ROWS, LENGTH, INPUTS), [states(3 + n, ROWS, D_MODEL) for n in range(cell.parts)]
    outputs, carried = run_cell(cell, inputs, tuple(initial), backwards=backwards)
    first = tuple(state.unsqueeze(0) for state in initial)
    expected, last = torch_cell(inputs.flip(1) if backwards else inputs, first if len(first) > 1 else first[0])
    close(outputs, expected.flip(1) if backwards else expected)
    for state, expected_state in zip(carried, last if isinstance(last, tuple) else (last,), strict=True):
        close(state, expected_state.squeeze(0))


def test_a_factorised_lstm_is_an_lstm_whose_matrix_is_a_product():
    torch.manual_seed(1)
    factorised, full = (spec.build(INPUTS, D_MODEL).double() for spec in (FactorisedLstm(rank=4), Lstm()))
    with torch.no_grad():
        full.from_input.weight.copy_(factorised.widen.weight @ factorised.from_input.weight)
        full.from_state.weight.copy_(factorised.widen.weight @ factorised.from_state.weight)
        full.from_input.bias.copy_(factorised.widen.bias)
        full.from_state.bias.zero_()
    inputs = states(2, ROWS, LENGTH, INPUTS)
    close(*(run_cell(cell, inputs, cell.begin(ROWS, inputs))[0] for cell in (factorised, full)))
    assert sum(weight.numel() for weight in factorised.parameters()) == 4 * (INPUTS + D_MODEL) + 4 * D_MODEL * (4 + 1)


@pytest.mark.parametrize("backwards", [False, True])
def test_padding_does_not_change_the_carried_state(backwards):
    torch.manual_seed(1)
    cell, inputs = Lstm().build(INPUTS, D_MODEL).double(), states(2, ROWS, LENGTH, INPUTS)
    visible = torch.arange(LENGTH) < torch.tensor([6, 2, 4]).unsqueeze(1)
    outputs, carried = run_cell(cell, inputs, cell.begin(ROWS, inputs), visible, backwards=backwards)
    for row, present in enumerate(visible):
        sentence = inputs[row : row + 1, present]
        alone, last = run_cell(cell, sentence, cell.begin(1, sentence), backwards=backwards)
        close(outputs[row : row + 1, present], alone)
        close(carried[0][row : row + 1], last[0])


def test_gradients_vanish_in_a_plain_cell_and_need_not_in_an_lstm():
    """The ratio of gradients by the first and the last input, the reason for gates (Hochreiter et al. 1997)."""
    decays = {}
    for spec in (Plain(), Lstm()):
        torch.manual_seed(1)
        cell = spec.build(8, 8).double()
        if cell.parts == 2:
            with torch.no_grad():
                cell.from_input.bias[8:16] = 4.0  # the forget gate is open
        inputs = states(2, 1, 60, 8).requires_grad_()
        outputs, _ = run_cell(cell, inputs, cell.begin(1, inputs))
        (gradient,) = torch.autograd.grad(outputs[:, -1].square().sum(), inputs)
        sizes = gradient[0].norm(dim=-1)
        decays[type(cell).__name__] = float(sizes[0] / sizes[-1])
    assert decays["PlainCell"] < 1e-6 < decays["LstmCell"]
