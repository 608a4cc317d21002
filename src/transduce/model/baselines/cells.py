"""Recurrent cells: plain, LSTM, factorised LSTM, GRU; gates in torch's order, so that torch's weights fit."""

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
    """h_t = tanh(W_x x_t + W_h h_{t−1} + b), whose memory of the distant past fades."""

    kind: Literal["plain"] = "plain"

    def build(self, inputs: int, d_model: int) -> "PlainCell":
        """The module."""
        return PlainCell(inputs, d_model)

    def products(self, inputs: int, d_model: int) -> int:
        """Multiplications of a step."""
        return d_model * (inputs + d_model)


class Lstm(Spec):
    """Hochreiter and Schmidhuber 1997, with a forget gate."""

    kind: Literal["lstm"] = "lstm"

    def build(self, inputs: int, d_model: int) -> "LstmCell":
        """The module."""
        return LstmCell(inputs, d_model)

    def products(self, inputs: int, d_model: int) -> int:
        """Multiplications of a step."""
        return 4 * d_model * (inputs + d_model)


class FactorisedLstm(Spec):
    """An LSTM whose one matrix over input and state is a product of two thin ones (Kuchaiev and Ginsburg 2017)."""

    kind: Literal["factorised_lstm"] = "factorised_lstm"
    rank: int = Field(ge=1)

    def build(self, inputs: int, d_model: int) -> "FactorisedLstmCell":
        """The module."""
        return FactorisedLstmCell(inputs, d_model, self.rank)

    def products(self, inputs: int, d_model: int) -> int:
        """Multiplications of a step."""
        return self.rank * (inputs + 5 * d_model)


class Gru(Spec):
    """Cho et al. 2014."""

    kind: Literal["gru"] = "gru"

    def build(self, inputs: int, d_model: int) -> "GruCell":
        """The module."""
        return GruCell(inputs, d_model)

    def products(self, inputs: int, d_model: int) -> int:
        """Multiplications of a step."""
        return 3 * d_model * (inputs + d_model)


Cell = Annotated[Plain | Lstm | FactorisedLstm | Gru, Field(discriminator="kind")]


class RecurrentCell(nn.Module):
    """`project` reads the inputs of all steps at once; `advance` takes one step. The output is `carried[0]`."""

    parts = 1  # tensors that are carried

    def __init__(self, inputs: int, d_model: int, gates: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.from_input = nn.Linear(inputs, gates * d_model)
        self.from_state = nn.Linear(d_model, gates * d_model)

    def begin(self, rows: int, like: Tensor) -> Carried:
        """Nothing carried yet."""
        return tuple(like.new_zeros(rows, self.d_model) for _ in range(self.parts))

    def project(self, inputs: Inputs) -> Projected:
        """What the input alone contributes."""
        projected: Tensor = self.from_input(inputs)
        return projected

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """One step."""
        raise NotImplementedError


class PlainCell(RecurrentCell):
    """One tanh."""

    def __init__(self, inputs: int, d_model: int) -> None:
        super().__init__(inputs, d_model, gates=1)

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """tanh(W_x x + W_h h + b)."""
        return (torch.tanh(projected + self.from_state(carried[0])),)


class LstmCell(RecurrentCell):
    """Input, forget and output gates around a cell that adds up."""

    parts = 2

    def __init__(self, inputs: int, d_model: int) -> None:
        super().__init__(inputs, d_model, gates=4)

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """c = f · c + i · g, h = o · tanh(c)."""
        return _gated(projected + self.from_state(carried[0]), carried[1])


class FactorisedLstmCell(RecurrentCell):
    """[x; h] to `rank` features, and these to the gates."""

    parts = 2

    def __init__(self, inputs: int, d_model: int, rank: int) -> None:
        nn.Module.__init__(self)
        self.d_model = d_model
        self.from_input = nn.Linear(inputs, rank, bias=False)
        self.from_state = nn.Linear(d_model, rank, bias=False)
        self.widen = nn.Linear(rank, 4 * d_model)

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """As an LSTM."""
        return _gated(self.widen(projected + self.from_state(carried[0])), carried[1])


class GruCell(RecurrentCell):
    """Reset and update gates."""

    def __init__(self, inputs: int, d_model: int) -> None:
        super().__init__(inputs, d_model, gates=3)

    def advance(self, projected: Projected, carried: Carried) -> Carried:
        """h = (1 − z) · n + z · h with n = tanh(W x + r · U h)."""
        reset, update, new = projected.chunk(3, -1)
        from_reset, from_update, from_new = self.from_state(carried[0]).chunk(3, -1)
        kept = torch.sigmoid(update + from_update)
        new = torch.tanh(new + torch.sigmoid(reset + from_reset) * from_new)
        return ((1 - kept) * new + kept * carried[0],)


def _gated(gates: Float[Tensor, "rows gates"], cell: Float[Tensor, "rows d_model"]) -> Carried:
    """The LSTM's step from its four gates."""
    entering, kept, new, leaving = gates.chunk(4, -1)
    cell = torch.sigmoid(kept) * cell + torch.sigmoid(entering) * torch.tanh(new)
    return torch.sigmoid(leaving) * torch.tanh(cell), cell


def ran(
    cell: RecurrentCell,
    inputs: Float[Tensor, "rows length inputs"],
    carried: Carried,
    visible: Tensor | None = None,
    *,
    backwards: bool = False,
) -> tuple[Float[Tensor, "rows length d_model"], Carried]:
    """The cell along whole sequences; where a place is not `visible` [rows length], what is carried stays as it is."""
    # Steps first, so that what a step reads lies together.
    projected, length = cell.project(inputs.transpose(0, 1)).unbind(0), inputs.shape[1]
    present = None if visible is None else visible.unsqueeze(2).unbind(1)
    outputs: list[Tensor] = [inputs] * length
    for place in reversed(range(length)) if backwards else range(length):
        advanced = cell.advance(projected[place], carried)
        if present is not None:
            both = zip(advanced, carried, strict=True)
            advanced = tuple(torch.where(present[place], new, old) for new, old in both)
        carried = advanced
        outputs[place] = carried[0]
    return torch.stack(outputs, dim=1), carried
