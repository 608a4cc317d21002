"""Recurrent cells: torch's own with the same weights; the plain one by hand; the factorised one by its matrix."""

import pytest
import torch
from torch import nn

from transduce.model.baselines.cells import FactorisedLstm, Gru, Lstm, Plain, run_cell

INPUTS, D_MODEL, ROWS, LENGTH = 5, 7, 3, 6


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def states(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("spec", "theirs"), [(Lstm(), nn.LSTM), (Gru(), nn.GRU), (Plain(), nn.RNN)])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_cell_is_torchs_own(spec, theirs, backwards):
    torch.manual_seed(1)
    cell, other = spec.build(INPUTS, D_MODEL).double(), theirs(INPUTS, D_MODEL, batch_first=True).double()
    with torch.no_grad():
        for mine, name in ((cell.from_input, "ih"), (cell.from_state, "hh")):
            getattr(other, f"weight_{name}_l0").copy_(mine.weight)
            getattr(other, f"bias_{name}_l0").copy_(mine.bias)
    inputs, begun = states(2, ROWS, LENGTH, INPUTS), [states(3 + n, ROWS, D_MODEL) for n in range(cell.parts)]
    outputs, carried = run_cell(cell, inputs, tuple(begun), backwards=backwards)
    first = tuple(each.unsqueeze(0) for each in begun)
    expected, last = other(inputs.flip(1) if backwards else inputs, first if len(first) > 1 else first[0])
    close(outputs, expected.flip(1) if backwards else expected)
    for mine, their in zip(carried, last if isinstance(last, tuple) else (last,), strict=True):
        close(mine, their.squeeze(0))


def test_a_factorised_lstm_is_an_lstm_whose_matrix_is_a_product():
    torch.manual_seed(1)
    thin, whole = (spec.build(INPUTS, D_MODEL).double() for spec in (FactorisedLstm(rank=4), Lstm()))
    with torch.no_grad():
        whole.from_input.weight.copy_(thin.widen.weight @ thin.from_input.weight)
        whole.from_state.weight.copy_(thin.widen.weight @ thin.from_state.weight)
        whole.from_input.bias.copy_(thin.widen.bias)
        whole.from_state.bias.zero_()
    inputs = states(2, ROWS, LENGTH, INPUTS)
    close(*(run_cell(cell, inputs, cell.begin(ROWS, inputs))[0] for cell in (thin, whole)))
    assert sum(weight.numel() for weight in thin.parameters()) == 4 * (INPUTS + D_MODEL) + 4 * D_MODEL * (4 + 1)


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_carried_passes_padding_untouched(backwards):
    torch.manual_seed(1)
    cell, inputs = Lstm().build(INPUTS, D_MODEL).double(), states(2, ROWS, LENGTH, INPUTS)
    visible = torch.arange(LENGTH) < torch.tensor([6, 2, 4]).unsqueeze(1)
    outputs, carried = run_cell(cell, inputs, cell.begin(ROWS, inputs), visible, backwards=backwards)
    for row, present in enumerate(visible):
        one = inputs[row : row + 1, present]
        alone, last = run_cell(cell, one, cell.begin(1, one), backwards=backwards)
        close(outputs[row : row + 1, present], alone)
        close(carried[0][row : row + 1], last[0])


def test_the_memory_of_a_plain_cell_fades_and_an_lstms_can_last():
    """The gradient of the last state by the first input: the reason for gates (Hochreiter and Schmidhuber 1997)."""
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
