"""Noisy gating over experts against its equations (Shazeer et al. 2017, sections 2.1 and 4, appendix A)."""

from statistics import NormalDist

import pytest
import torch
from torch.nn import functional

from transduce.model.feed_forward import MIN_DEVIATION, Experts, FeedForward, _load

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
    """Returns x W_g, the deviation of the noise, and H(x) with the noise that `called` draws: [rows experts]."""
    clean = states() @ module.gate.weight.detach().T
    deviation = functional.softplus(states() @ module.noise.weight.detach().T) + MIN_DEVIATION
    torch.manual_seed(3)
    return clean, deviation, clean + torch.randn(ROWS, NUMBER) * deviation


def called(module, seed=3):
    torch.manual_seed(seed)
    return module(states())[0].detach()


def rival(noisy, expert):
    """Returns the k-th largest H(x) among the other experts, which `expert` must exceed."""
    return sorted((float(score) for number, score in enumerate(noisy) if number != expert), reverse=True)[CHOSEN - 1]


def squared_variation(totals):
    """Returns CV²: the variance divided by the square of the mean."""
    mean = sum(totals) / len(totals)
    return sum((total - mean) ** 2 for total in totals) / len(totals) / mean**2


def test_a_token_goes_to_the_experts_of_the_best_noisy_scores():
    module = mixture()
    best, experts = gated(module)[2].topk(CHOSEN)
    weights, rows = best.softmax(1), []
    for row, state in enumerate(states()):
        chosen = zip(experts[row].tolist(), weights[row], strict=True)
        rows.append(sum(weight * module.experts[expert](state) for expert, weight in chosen).detach())
    torch.testing.assert_close(called(module), torch.stack(rows))


def test_the_penalty_is_the_squared_variation_of_importance_and_load():
    module = mixture(balance=0.3)
    torch.manual_seed(3)
    _, penalty = module(states())
    clean, deviation, noisy = gated(module)
    importance, load = [0.0] * NUMBER, [0.0] * NUMBER
    for row in range(ROWS):
        first = noisy[row].argsort(descending=True)[:CHOSEN]
        for expert, share in zip(first.tolist(), noisy[row, first].softmax(0).tolist()):
            importance[expert] += share
        for expert in range(NUMBER):
            ahead = float(clean[row, expert]) - rival(noisy[row], expert)
            load[expert] += NormalDist().cdf(ahead / float(deviation[row, expert]))
    assert min(squared_variation(importance), squared_variation(load)) > 0.01
    expected = 0.3 * (squared_variation(importance) + squared_variation(load))
    assert float(penalty.detach()) == pytest.approx(expected, rel=1e-5)


def test_the_load_is_the_probability_of_being_chosen_when_the_noise_is_redrawn():
    clean, deviation, noisy = gated(mixture())
    load = _load(clean, noisy, deviation, noisy.topk(CHOSEN + 1).values)
    draws, generator = 20_000, torch.Generator().manual_seed(4)
    assert load.amin() < 0.1
    assert load.amax() > 0.9
    for row in range(ROWS):
        for expert in range(NUMBER):
            redrawn = clean[row, expert] + deviation[row, expert] * torch.randn(draws, generator=generator)
            frequency = float((redrawn > rival(noisy[row], expert)).float().mean())
            probability = float(load[row, expert])
            # Five standard deviations in each of forty checks: one false alarm in 43,000 runs.
            bound = 5 * (probability * (1 - probability) / draws) ** 0.5 + 1e-3
            assert frequency == pytest.approx(probability, abs=bound)


def test_noise_is_drawn_in_training_only():
    module = mixture()
    assert torch.equal(called(module, 5), called(module, 5))
    assert not torch.allclose(called(module, 5), called(module, 6))
    module.eval()
    assert torch.equal(called(module, 5), called(module, 6))
