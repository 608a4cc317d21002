"""Adam and Muon over one flat buffer against torch's over separate parameters."""

import copy
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional

from transduce.training.muon import FlatMuon, Muon, flat_optimiser, orthogonal
from transduce.training.optimiser import Adam, FlatAdam

FINITE = torch.tensor(True)
SPEC = Adam(betas=(0.8, 0.95), epsilon=1e-7)
MUON = Muon(momentum=0.9, scale=0.3, weight_decay=0.4)

both = pytest.mark.parametrize("spec", [SPEC, MUON], ids=["adam", "muon"])


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


def trained(model, clip=None, spec=SPEC):
    optimiser = flat_optimiser(model, spec)
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


def test_muon_refuses_a_model_without_linear_maps():
    with pytest.raises(ValueError, match=r"Muon is for linear maps, and this model has none; take `kind: adam`"):
        flat_optimiser(nn.Conv1d(3, 3, 1), MUON)


def test_muon_is_torchs_muon_for_linear_maps_and_torchs_adam_for_all_else():
    """torch's Muon computes in bfloat16 everywhere."""
    mine, theirs = Twice(), Twice()
    trained(mine, spec=MUON)
    matrices = [theirs.inner.weight, theirs.outer.weight]
    others = [theirs.table, theirs.inner.bias, theirs.scale]
    # torch's scale is 0.2, which the rate makes 0.3, and it multiplies the decay by the rate too.
    muon = torch.optim.Muon(matrices, momentum=0.9, weight_decay=0.4 * 0.2 / 0.3, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.Adam(others, betas=(0.9, 0.98), eps=1e-9)
    for step, tokens in enumerate(TOKENS, start=1):
        theirs.zero_grad()
        theirs(tokens).backward()
        muon.param_groups[0]["lr"] = 0.01 * step * 0.3 / 0.2
        adam.param_groups[0]["lr"] = 0.01 * step
        muon.step()
        adam.step()
    for (name, parameter), expected in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, rtol=0, atol=2e-3, msg=name)
        assert not torch.equal(parameter, dict(Twice().named_parameters())[name])


class OneOfSeveral(NamedTuple):
    """The group of a process that exchanges its parts later, as the test does for all."""

    rank: int
    size: int
    parts: list[torch.Tensor]

    def all_gather_parts(self, parts):
        self.parts[:] = parts


@pytest.mark.parametrize("size", [2, 3], ids=["a matrix each", "more processes than matrices"])
def test_processes_that_divide_the_matrices_make_the_step_of_one(size):
    alone, models = Twice(), [Twice() for _ in range(size)]
    trained(alone, spec=MUON)
    groups = [OneOfSeveral(rank, size, []) for rank in range(size)]
    optimisers = [FlatMuon(model, MUON, group) for model, group in zip(models, groups, strict=True)]
    for step, tokens in enumerate(TOKENS, start=1):
        for model, optimiser in zip(models, optimisers, strict=True):
            optimiser.zero_gradient()
            model(tokens).backward()
            optimiser.update(0.01 * step, FINITE)
        for group in groups:
            for rank, part in enumerate(group.parts):
                part.copy_(groups[rank].parts[rank])
    for model in models:
        for mine, expected in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-6)
    assert sum(len(optimiser._matrices) for optimiser in optimisers) == 2


@pytest.mark.parametrize("shape", [(3, 8, 24), (3, 24, 8), (1, 16, 16)])
def test_an_orthogonal_matrix_has_the_same_singular_vectors(shape):
    torch.manual_seed(5)
    matrices = torch.randn(shape)
    left, values, right = torch.linalg.svd(orthogonal(matrices), full_matrices=False)
    before_left, before_values, before_right = torch.linalg.svd(matrices, full_matrices=False)
    assert values.min() > 0.4
    assert values.max() < 1.3
    largest = before_values.max() / before_values.min()
    assert largest > 1.5
    polar, expected = left @ right, before_left @ before_right
    assert torch.nn.functional.cosine_similarity(polar.flatten(1), expected.flatten(1)).min() > 0.995


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


@both
def test_the_layout_changes_no_weight(spec):
    model, untouched = Twice(), Twice()
    flat_optimiser(model, spec)
    assert all(map(torch.equal, model.parameters(), untouched.parameters()))


@both
def test_every_weight_and_gradient_is_in_the_buffer(spec):
    model = Twice()
    optimiser = flat_optimiser(model, spec)
    model(TOKENS[0]).backward()
    squares = sum(parameter.grad.double().square().sum() for parameter in model.parameters())
    assert float(optimiser.gradient.double().norm()) == pytest.approx(float(squares.sqrt()), rel=1e-6)
    optimiser.vector.fill_(2.0)
    assert all(bool((parameter == 2).all()) for parameter in model.parameters())
    optimiser.zero_gradient()
    assert all(bool((parameter.grad == 0).all()) for parameter in model.parameters())


@both
def test_a_loaded_optimiser_continues_bit_identically(spec):
    whole, halves = Twice(), Twice()
    trained(whole, spec=spec)
    first = trained_for(halves, 2, spec)
    saved = {name: tensor.clone() for name, tensor in first.state().items()}
    again = copy.deepcopy(halves)
    second = flat_optimiser(again, spec)
    second.load_state(saved)
    for step, tokens in enumerate(TOKENS[2:], start=3):
        second.zero_gradient()
        again(tokens).backward()
        second.update(0.01 * step, FINITE)
    assert all(map(torch.equal, again.parameters(), whole.parameters()))


def trained_for(model, steps, spec):
    optimiser = flat_optimiser(model, spec)
    for step, tokens in enumerate(TOKENS[:steps], start=1):
        optimiser.zero_gradient()
        model(tokens).backward()
        optimiser.update(0.01 * step, FINITE)
    return optimiser


def test_the_state_of_another_model_is_refused():
    state = trained(Twice()).state()
    for other in (flat_optimiser(nn.Linear(5, 40), SPEC), flat_optimiser(Twice(), MUON)):
        with pytest.raises(ValueError, match="belongs to another model"):
            other.load_state(state)


@both
def test_an_update_that_is_not_finite_changes_nothing(spec):
    model = Twice()
    optimiser = trained_for(model, 2, spec)
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
    for changed in (saved[::-1], saved[:1], [["weight", [4, 6]], saved[1]]):
        with pytest.raises(ValueError, match="belongs to another model"):
            layout.check_parameter_shapes(changed)
