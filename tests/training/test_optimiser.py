"""Adam over one flat buffer against torch's Adam over separate parameters."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from transduce.training.optimiser import Adam, FlatAdam

FINITE = torch.tensor(True)
SPEC = Adam(betas=(0.8, 0.95), epsilon=1e-7)


class Twice(nn.Module):
    """Parameters of odd sizes, one of them in two places, as embeddings are."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Parameter(torch.randn(7, 5))
        self.inner = nn.Linear(5, 3)
        self.outer = nn.Linear(3, 5, bias=False)
        self.readout = self.table
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, tokens):
        states = self.outer(torch.tanh(self.inner(self.table[tokens]))) * self.scale
        return functional.cross_entropy(states @ self.readout.T, tokens.flip(0))


TOKENS = [torch.randint(7, (11,), generator=torch.Generator().manual_seed(step)) for step in range(5)]


def trained(model, clip=None):
    optimiser = FlatAdam(model, SPEC)
    for step, tokens in enumerate(TOKENS, start=1):
        optimiser.zero_gradient()
        model(tokens).backward()
        if clip is not None:
            optimiser.gradient.mul_(min(1, clip / optimiser.gradient.norm()))
        optimiser.update(0.01 * step, FINITE)
    return optimiser


def reference(model, clip=None):
    """Trains with torch's Adam over a list of parameters, unfused."""
    optimiser = torch.optim.Adam(model.parameters(), betas=SPEC.betas, eps=SPEC.epsilon, fused=False, foreach=False)
    for step, tokens in enumerate(TOKENS, start=1):
        optimiser.zero_grad()
        model(tokens).backward()
        if clip is not None:
            norm = sum(parameter.grad.square().sum() for parameter in model.parameters()).sqrt()
            for parameter in model.parameters():
                parameter.grad *= min(1, clip / norm)
        optimiser.param_groups[0]["lr"] = 0.01 * step
        optimiser.step()


@pytest.mark.parametrize("clip", [None, 0.3])
def test_it_is_torchs_adam(clip):
    mine, theirs = Twice().double(), Twice().double()
    trained(mine, clip)
    reference(theirs, clip)
    for (name, parameter), expected in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, rtol=1e-12, atol=1e-12, msg=name)


def test_a_shared_parameter_stays_shared_and_gathers_both_gradients():
    model, untouched = Twice().double(), Twice().double()
    optimiser = FlatAdam(model, SPEC)
    assert model.readout is model.table
    optimiser.zero_gradient()
    model(TOKENS[0]).backward()
    untouched(TOKENS[0]).backward()
    torch.testing.assert_close(model.table.grad, untouched.table.grad, rtol=1e-12, atol=1e-14)
    optimiser.update(0.1, FINITE)
    assert model.readout.data_ptr() == model.table.data_ptr()
    assert not torch.equal(model.table, untouched.table)


def test_the_layout_changes_no_weight():
    model, untouched = Twice(), Twice()
    FlatAdam(model, SPEC)
    assert all(map(torch.equal, model.parameters(), untouched.parameters()))


def test_every_weight_and_gradient_is_in_the_buffer():
    model = Twice()
    optimiser = FlatAdam(model, SPEC)
    model(TOKENS[0]).backward()
    squares = sum(parameter.grad.double().square().sum() for parameter in model.parameters())
    assert float(optimiser.gradient.double().norm()) == pytest.approx(float(squares.sqrt()), rel=1e-6)
    optimiser.vector.fill_(2.0)
    assert all(bool((parameter == 2).all()) for parameter in model.parameters())
    optimiser.zero_gradient()
    assert all(bool((parameter.grad == 0).all()) for parameter in model.parameters())


def test_a_loaded_optimiser_continues_bit_identically():
    whole, halves = Twice(), Twice()
    trained(whole)
    first = trained_for(halves, 2)
    saved = {name: tensor.clone() for name, tensor in first.state().items()}
    again = copy.deepcopy(halves)
    second = FlatAdam(again, SPEC)
    second.load_state(saved)
    for step, tokens in enumerate(TOKENS[2:], start=3):
        second.zero_gradient()
        again(tokens).backward()
        second.update(0.01 * step, FINITE)
    assert all(map(torch.equal, again.parameters(), whole.parameters()))


def trained_for(model, steps):
    optimiser = FlatAdam(model, SPEC)
    for step, tokens in enumerate(TOKENS[:steps], start=1):
        optimiser.zero_gradient()
        model(tokens).backward()
        optimiser.update(0.01 * step, FINITE)
    return optimiser


def test_the_state_of_another_model_is_refused():
    state = trained(Twice()).state()
    with pytest.raises(ValueError, match="belongs to another model"):
        FlatAdam(nn.Linear(5, 40), SPEC).load_state(state)


def test_an_update_that_is_not_finite_changes_nothing():
    model = Twice()
    optimiser = trained_for(model, 2)
    weights, state = optimiser.vector.clone(), {name: tensor.clone() for name, tensor in optimiser.state().items()}
    optimiser.gradient.fill_(float("nan"))
    optimiser.update(0.1, ~FINITE)
    assert torch.equal(optimiser.vector, weights)
    assert all(torch.equal(tensor, state[name]) for name, tensor in optimiser.state().items())
    optimiser.gradient.fill_(1.0)
    optimiser.update(0.1, FINITE)
    assert not torch.equal(optimiser.vector, weights)


def test_the_norm_of_many_numbers_is_exact() -> None:
    model = nn.Linear(2**12, 2**12, bias=False)
    optimiser = FlatAdam(model, SPEC)
    optimiser.gradient.copy_(torch.rand(optimiser.gradient.shape, generator=torch.Generator().manual_seed(1)))
    exact = float(optimiser.gradient.double().square().sum().sqrt())
    assert float(optimiser.norm()) == pytest.approx(exact, rel=6e-8)


def test_a_state_with_other_parameters_or_another_order_is_refused() -> None:
    layout = FlatAdam(nn.Linear(5, 4), SPEC).layout
    saved = layout.parameter_shapes()
    layout.check_parameter_shapes(saved)
    layout.check_parameter_shapes(None)  # of a version that did not save them
    for changed in (saved[::-1], saved[:1], [["weight", [4, 6]], saved[1]]):
        with pytest.raises(ValueError, match="belongs to another model"):
            layout.check_parameter_shapes(changed)
