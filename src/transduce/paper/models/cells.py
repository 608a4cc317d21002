"""Recurrent cells: plain, LSTM, factorised LSTM, GRU; gates are in the order of torch's cells."""

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
    """h_t = tanh(W_x x_t + W_h h_{t−1} + b)."""

    kind: Literal["plain"] = "plain"

    def build(self, inputs: int, d_model: int) -> "PlainCell":
        """Builds the module."""
        return PlainCell(inputs, d_model)

    def multiplications(self, inputs: int, d_model: int) -> int:
        """Counts the multiplications of one step."""
        return d_model * (inputs + d_model)


class Lstm(Spec):
    """The LSTM of Hochreiter and Schmidhuber 1997, with a forget gate."""

    kind: Literal["lstm"] = "lstm"

    def build(self, inputs: int, d_model: int) -> "LstmCell":
        """Builds the module."""
        return LstmCell(inputs, d_model)

    def multiplications(self, inputs: int, d_model: int) -> int:
        """Counts the multiplications of one step."""
        return 4 * d_model * (inputs + d_model)


class FactorisedLstm(Spec):
    """An LSTM whose matrix over input and state is a product of two thin matrices (Kuchaiev and Ginsburg 2017)."""

    kind: Literal["factorised_lstm"] = "factorised_lstm"
    rank: int = Field(ge=1, description="Rank of the factorised matrix.")

    def build(self, inputs: int, d_model: int) -> "FactorisedLstmCell":
        """Builds the module."""
        return FactorisedLstmCell(inputs, d_model, self.rank)

    def multiplications(self, inputs: int, d_model: int) -> int:
        """Counts the multiplications of one step."""
        return self.rank * (inputs + 5 * d_model)


class Gru(Spec):
    """The gated recurrent unit of Cho et al. 2014."""

    kind: Literal["gru"] = "gru"

    def build(self, inputs: int, d_model: int) -> "GruCell":
        """Builds the module."""
        return GruCell(inputs, d_model)

    def multiplications(self, inputs: int, d_model: int) -> int:
        """Counts the multiplications of one step."""
        return 3 * d_model * (inputs + d_model)


Cell = Annotated[Plain | Lstm | FactorisedLstm | Gru, Field(discriminator="kind")]


class RecurrentCell(nn.Module):
    """`project` maps the inputs of all steps at once, `advance` takes one step; the output is `carried[0]`."""

    gates = 1
    parts = 1  # number of tensors carried from step to step

    def __init__(self, inputs: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.from_input = nn.Linear(inputs, self.gates * d_model)
        self.from_state = nn.Linear(d_model, self.gates * d_model)

    def begin(self, rows: int, like: Tensor) -> Carried:
        """Zeros, which are carried before the first step."""
        return tuple(like.new_zeros(rows, self.d_model) for _ in range(self.parts))

    def project(self, inputs: Inputs) -> Projected:
        """Contribution of the inputs to the gates."""
        return self.from_input(inputs)

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Takes one step and returns the tensors for the next step."""
        raise NotImplementedError


class PlainCell(RecurrentCell):
    """The plain cell, with one tanh."""

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Computes tanh(W_x x + W_h h + b)."""
        return (torch.tanh(projected + self.from_state(carried[0])),)


class LstmCell(RecurrentCell):
    """The LSTM: input, forget and output gates around a cell that accumulates."""

    gates = 4
    parts = 2

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Computes h = o · tanh(c) and c = f · c + i · g."""
        return _lstm_step(projected + self.from_state(carried[0]), carried[1])


class FactorisedLstmCell(RecurrentCell):
    """Maps [x; h] to `rank` features, and the features to the gates of an LSTM."""

    gates = 4
    parts = 2

    def __init__(self, inputs: int, d_model: int, rank: int) -> None:
        nn.Module.__init__(self)
        self.d_model = d_model
        self.from_input = nn.Linear(inputs, rank, bias=False)
        self.from_state = nn.Linear(d_model, rank, bias=False)
        self.widen = nn.Linear(rank, self.gates * d_model)

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Computes h and c like `LstmCell.advance`, from the features."""
        return _lstm_step(self.widen(projected + self.from_state(carried[0])), carried[1])


class GruCell(RecurrentCell):
    """The GRU: reset and update gates."""

    gates = 3

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """Computes h = (1 − z) · n + z · h with n = tanh(W x + r · U h)."""
        reset, update, new = projected.chunk(3, -1)
        from_reset, from_update, from_new = self.from_state(carried[0]).chunk(3, -1)
        z = torch.sigmoid(update + from_update)
        new = torch.tanh(new + torch.sigmoid(reset + from_reset) * from_new)
        return ((1 - z) * new + z * carried[0],)


def _lstm_step(gates: Float[Tensor, "rows gates"], cell: Float[Tensor, "rows d_model"]) -> Carried:
    """Computes h and c of an LSTM, from its four gates before their activations and the last c."""
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
    """Runs the cell along sequences; returns its outputs and the tensors carried after the last step.

    At positions that are not `visible` [rows length], the carried tensors do not change.
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
