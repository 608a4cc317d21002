"""Recurrent cells: the plain cell, the LSTM, the factorised LSTM and the GRU.

The gates are in the same order as in torch's cells.
"""

from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from transduce.settings import Spec

Inputs = Float[Tensor, "*rows inputs"]
Projected = Float[Tensor, "*rows gates"]
Carried = tuple[Float[Tensor, "rows d_model"], ...]


class Plain(Spec):
    """Settings of the plain cell, which computes h_t = tanh(W_x x_t + W_h h_{t−1} + b)."""

    kind: Literal["plain"] = "plain"

    def build(self, inputs: int, d_model: int) -> "PlainCell":
        """Builds the cell."""
        return PlainCell(inputs, d_model)

    def multiplications(self, inputs: int, d_model: int) -> int:
        """Counts the multiplications of one step."""
        return d_model * (inputs + d_model)


class Lstm(Spec):
    """Settings of the LSTM of Hochreiter and Schmidhuber (1997), with a forget gate."""

    kind: Literal["lstm"] = "lstm"

    def build(self, inputs: int, d_model: int) -> "LstmCell":
        """Builds the cell."""
        return LstmCell(inputs, d_model)

    def multiplications(self, inputs: int, d_model: int) -> int:
        """Counts the multiplications of one step."""
        return 4 * d_model * (inputs + d_model)


class FactorisedLstm(Spec):
    """Settings of an LSTM whose weight matrix is the product of two low-rank matrices (Kuchaiev and Ginsburg 2017)."""

    kind: Literal["factorised_lstm"] = "factorised_lstm"
    rank: int = Field(ge=1, description="Rank of the factorised weight matrix; smaller values need fewer parameters.")

    def build(self, inputs: int, d_model: int) -> "FactorisedLstmCell":
        """Builds the cell."""
        return FactorisedLstmCell(inputs, d_model, self.rank)

    def multiplications(self, inputs: int, d_model: int) -> int:
        """Counts the multiplications of one step."""
        return self.rank * (inputs + 5 * d_model)


class Gru(Spec):
    """Settings of the gated recurrent unit of Cho et al. (2014)."""

    kind: Literal["gru"] = "gru"

    def build(self, inputs: int, d_model: int) -> "GruCell":
        """Builds the cell."""
        return GruCell(inputs, d_model)

    def multiplications(self, inputs: int, d_model: int) -> int:
        """Counts the multiplications of one step."""
        return 3 * d_model * (inputs + d_model)


Cell = Annotated[Plain | Lstm | FactorisedLstm | Gru, Field(discriminator="kind")]


class RecurrentCell(nn.Module):
    """Base class of the recurrent cells.

    `project` maps the inputs of all steps at once, and `advance` takes a single step. The output of a step is the first
    of the tensors that it carries to the next step.
    """

    gates = 1
    parts = 1  # number of tensors carried from step to step

    def __init__(self, inputs: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.from_input = nn.Linear(inputs, self.gates * d_model)
        self.from_state = nn.Linear(d_model, self.gates * d_model)

    def begin(self, rows: int, like: Tensor) -> Carried:
        """Returns the tensors that are carried before the first step, which are zeros."""
        return tuple(like.new_zeros(rows, self.d_model) for _ in range(self.parts))

    def project(self, inputs: Inputs) -> Projected:
        """Computes the contribution of the inputs to the gates."""
        return self.from_input(inputs)

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Takes one step, and returns the tensors that are carried to the next step."""
        raise NotImplementedError


class PlainCell(RecurrentCell):
    """A plain recurrent cell with a single tanh."""

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Computes tanh(W_x x + W_h h + b)."""
        return (torch.tanh(projected + self.from_state(carried[0])),)


class LstmCell(RecurrentCell):
    """An LSTM cell, whose cell state is controlled by an input, a forget and an output gate."""

    gates = 4
    parts = 2

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Computes c' = f · c + i · g and h' = o · tanh(c')."""
        return _lstm_step(projected + self.from_state(carried[0]), carried[1])


class FactorisedLstmCell(RecurrentCell):
    """An LSTM cell that maps [x; h] to `rank` features, and these features to the gates."""

    gates = 4
    parts = 2

    def __init__(self, inputs: int, d_model: int, rank: int) -> None:
        nn.Module.__init__(self)
        self.d_model = d_model
        self.from_input = nn.Linear(inputs, rank, bias=False)
        self.from_state = nn.Linear(d_model, rank, bias=False)
        self.widen = nn.Linear(rank, self.gates * d_model)

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Computes h' and c' as in `LstmCell.advance`, with the gates computed from the features."""
        return _lstm_step(self.widen(projected + self.from_state(carried[0])), carried[1])


class GruCell(RecurrentCell):
    """A gated recurrent unit with a reset gate and an update gate."""

    gates = 3

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Computes h' = (1 − z) · n + z · h, where n = tanh(W x + r · U h)."""
        reset, update, new = projected.chunk(3, -1)
        from_reset, from_update, from_new = self.from_state(carried[0]).chunk(3, -1)
        z = torch.sigmoid(update + from_update)
        new = torch.tanh(new + torch.sigmoid(reset + from_reset) * from_new)
        return ((1 - z) * new + z * carried[0],)


def _lstm_step(gates: Float[Tensor, "rows gates"], cell: Float[Tensor, "rows d_model"]) -> Carried:
    """Computes h' and c' of an LSTM from its four gates before their activation functions and from the previous c."""
    i, f, g, o = gates.chunk(4, -1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def run_cell(
    cell: RecurrentCell,
    inputs: Float[Tensor, "rows length inputs"],
    carried: Carried,
    visible: Tensor | None = None,
    *,
    backwards: bool = False,
) -> tuple[Float[Tensor, "rows length d_model"], Carried]:
    """Runs a cell along sequences, and returns its outputs and the tensors carried after the last step.

    At positions that are not `visible` [rows length], the carried tensors do not change. If `backwards`, the cell runs
    from the last position to the first.
    """
    # Steps first, so that the inputs of one step are contiguous.
    projected, length = cell.project(inputs.transpose(0, 1)).unbind(0), inputs.shape[1]
    present = None if visible is None else visible.unsqueeze(2).unbind(1)
    outputs: list[Tensor] = [inputs] * length
    for index in reversed(range(length)) if backwards else range(length):
        advanced = cell.advance(projected[index], carried)
        if present is not None:
            pairs = zip(advanced, carried, strict=True)
            advanced = tuple(torch.where(present[index], new, old) for new, old in pairs)
        carried = advanced
        outputs[index] = carried[0]
    return torch.stack(outputs, dim=1), carried
