"""Noisy gating over experts against its equations (Shazeer et al. 2017, sections 2.1 and 4, appendix A)."""

from statistics import NormalDist

import pytest
import torch
from torch.nn import functional

from transduce.model import FeedForward
from transduce.model.experts import MIN_DEVIATION, Experts, _load

NUMBER, CHOSEN, D_MODEL, ROWS = 5, 2, 6, 8


def mixture(balance=0.3):
    torch.manual_seed(1)
    module = Experts(expert=FeedForward(d_ff=12), number=NUMBER, chosen=CHOSEN, balance=balance).build(D_MODEL)
    with torch.no_grad():
        module.gate.weight.normal_(std=0.5)
        module.noise.weight.normal_(std=0.5)
    return module.train()


def states():
    return torch.randn(ROWS, D_MODEL, generator=torch.Generator().manual_seed(2))


def gated(module):
    """x W_g, the deviation of its noise, and H(x) with the noise that `called` draws: [rows experts]."""
    clean = states() @ module.gate.weight.detach().T
    spread = functional.softplus(states() @ module.noise.weight.detach().T) + MIN_DEVIATION
    torch.manual_seed(3)
    return clean, spread, clean + torch.randn(ROWS, NUMBER) * spread


def called(module, seed=3):
    torch.manual_seed(seed)
    return module(states())[0].detach()


def rival(noisy, expert):
    """The k-th greatest of the others' H(x): what `expert` has to beat."""
    return sorted((float(score) for other, score in enumerate(noisy) if other != expert), reverse=True)[CHOSEN - 1]


def unevenness(totals):
    """CV²: the variance over the square of the mean."""
    mean = sum(totals) / len(totals)
    return sum((total - mean) ** 2 for total in totals) / len(totals) / mean**2


def test_a_word_goes_to_the_best_by_noisy_scores():
    module = mixture()
    best, where = gated(module)[2].topk(CHOSEN)
    shares, rows = best.softmax(1), []
    for row, given in enumerate(states()):
        chosen = zip(where[row].tolist(), shares[row], strict=True)
        rows.append(sum(share * module.experts[expert](given) for expert, share in chosen).detach())
    torch.testing.assert_close(called(module), torch.stack(rows))


def test_the_penalty_is_the_unevenness_of_importance_and_of_load():
    module = mixture(balance=0.3)
    torch.manual_seed(3)
    _, penalty = module(states())
    clean, spread, noisy = gated(module)
    importance, load = [0.0] * NUMBER, [0.0] * NUMBER
    for row in range(ROWS):
        first = noisy[row].argsort(descending=True)[:CHOSEN]
        for expert, share in zip(first.tolist(), noisy[row, first].softmax(0).tolist()):
            importance[expert] += share
        for expert in range(NUMBER):
            ahead = float(clean[row, expert]) - rival(noisy[row], expert)
            load[expert] += NormalDist().cdf(ahead / float(spread[row, expert]))
    assert min(unevenness(importance), unevenness(load)) > 0.01
    expected = 0.3 * (unevenness(importance) + unevenness(load))
    assert float(penalty.detach()) == pytest.approx(expected, rel=1e-5)


def test_the_chance_of_an_expert_is_how_often_it_is_chosen_were_its_noise_drawn_anew():
    clean, spread, noisy = gated(mixture())
    chance = _load(clean, noisy, spread, noisy.topk(CHOSEN + 1).values)
    draws, generator = 20_000, torch.Generator().manual_seed(4)
    assert chance.amin() < 0.1
    assert chance.amax() > 0.9
    for row in range(ROWS):
        for expert in range(NUMBER):
            anew = clean[row, expert] + spread[row, expert] * torch.randn(draws, generator=generator)
            found = float((anew > rival(noisy[row], expert)).float().mean())
            likely = float(chance[row, expert])
            # Five standard deviations, for each of forty: one false alarm in 43,000.
            assert found == pytest.approx(likely, abs=5 * (likely * (1 - likely) / draws) ** 0.5 + 1e-3)


def test_noise_is_drawn_while_training_alone():
    module = mixture()
    assert torch.equal(called(module, 5), called(module, 5))
    assert not torch.allclose(called(module, 5), called(module, 6))
    module.eval()
    assert torch.equal(called(module, 5), called(module, 6))
