"""The loss against torch's own functions, for both definitions of label smoothing."""

import pytest
import torch
from torch.nn import functional

from transduce.model.cross_entropy import Smoothing
from transduce.model.feed_forward import MixtureOfExperts
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.settings import validated
from transduce.training.objective import RDrop, TrainingObjective

SPEC = Transformer.model_validate_json(
    """{"d_model": 12, "encoder_layers": 2, "decoder_layers": 1, "dropout": 0.0, "embeddings": "separate",
    "mixer": {"kind": "attention", "heads": 2, "d_k": 3, "d_v": 5}, "cross": {"heads": 3, "d_k": 4, "d_v": 2},
    "feed_forward": {"kind": "feed_forward", "d_ff": 20}}"""
)
SOURCE = torch.tensor([[5, 6, 7, 2, 0], [8, 2, 0, 0, 0], [4, 4, 9, 3, 2]])
TARGET_IN = torch.tensor([[1, 4, 5, 0], [1, 6, 3, 5], [1, 0, 0, 0]])
TARGET_OUT = torch.tensor([[4, 5, 2, 0], [6, 3, 5, 2], [2, 0, 0, 0]])


def model():
    torch.manual_seed(8)
    return SPEC.build(Vocabulary(source=10, target=7)).double()


def targets(epsilon, over):
    """Returns the smoothed target distributions, [tokens, vocabulary]."""
    right = functional.one_hot(TARGET_OUT[TARGET_OUT != 0], 7).double()
    if over == "all":
        return (1 - epsilon) * right + epsilon / 7
    return (1 - epsilon) * right + epsilon / 6 * (1 - right)


@pytest.mark.parametrize("over", ["all", "others"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3])
def test_the_loss_and_its_gradient(epsilon, over):
    mine, theirs = model(), model()
    loss = TrainingObjective(mine, Smoothing(epsilon=epsilon, over=over))(SOURCE, TARGET_IN, TARGET_OUT)
    loss.smoothed.backward()

    states, _ = theirs(SOURCE, SOURCE != 0, TARGET_IN)
    logits = (states @ theirs.target_embedding.weight.T)[TARGET_OUT != 0]
    expected = -(targets(epsilon, over) * logits.log_softmax(-1)).sum()
    expected.backward()

    assert loss.smoothed.item() == pytest.approx(expected.item(), rel=1e-12)
    right = functional.cross_entropy(logits, TARGET_OUT[TARGET_OUT != 0], reduction="sum")
    assert loss.unsmoothed.item() == pytest.approx(right.item(), rel=1e-12)
    for (name, parameter), expected_parameter in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected_parameter.grad, rtol=1e-10, atol=1e-12, msg=name)


def test_over_all_words_it_is_torchs_label_smoothing():
    with torch.no_grad():
        mine = model()
        loss = TrainingObjective(mine, Smoothing(epsilon=0.1))(SOURCE, TARGET_IN, TARGET_OUT)
        logits = mine.readout(mine(SOURCE, SOURCE != 0, TARGET_IN).states)
        expected = functional.cross_entropy(
            logits.flatten(0, 1), TARGET_OUT.flatten(), ignore_index=0, label_smoothing=0.1, reduction="sum"
        )
    assert float(loss.smoothed) == pytest.approx(float(expected), rel=1e-12)


def test_the_penalty_of_experts_is_added_for_each_token_to_the_smoothed_loss_only():
    torch.manual_seed(8)
    spec = SPEC.as_dictionary()
    expert = {"kind": "feed_forward", "d_ff": 20}
    spec["feed_forward"] = {"kind": "experts", "expert": expert, "number": 3, "chosen": 1, "balance": 0.3}
    mixed = validated(Transformer, spec, place="model").build(Vocabulary(source=10, target=7)).double().train()
    mixtures = [module for module in mixed.modules() if isinstance(module, MixtureOfExperts)]
    with torch.no_grad():
        for mixture in mixtures:
            mixture.gate.weight.normal_(std=0.3)
            mixture.noise.weight.normal_(std=0.3)
    smoothing = Smoothing(epsilon=0.1)

    def seeded(function, *arguments):
        torch.manual_seed(9)
        return function(*arguments)

    loss = seeded(TrainingObjective(mixed, smoothing), SOURCE, TARGET_IN, TARGET_OUT)
    states, penalty = seeded(mixed, SOURCE, SOURCE != 0, TARGET_IN)
    plain, expected_penalty = mixed.readout.loss(states, TARGET_OUT, smoothing), float(penalty.detach())
    tokens = 8
    assert expected_penalty > 0.05
    assert loss.smoothed.item() == pytest.approx(plain.smoothed.item() + expected_penalty * tokens, rel=1e-6)
    assert loss.unsmoothed.item() == plain.unsmoothed.item()
    (gradient,) = torch.autograd.grad(loss.smoothed, mixtures[0].noise.weight)
    assert gradient.any()  # only the penalty depends on the size of the noise


def test_r_drop_draws_two_passes_with_different_dropout_together():
    spec = validated(Transformer, {**SPEC.as_dictionary(), "dropout": 0.4}, place="model")
    mine, theirs = (spec.build(Vocabulary(source=10, target=7)).double().train() for _ in range(2))
    theirs.load_state_dict(mine.state_dict())
    smoothing = Smoothing(epsilon=0.1)
    torch.manual_seed(9)
    loss = TrainingObjective(mine, smoothing, RDrop(strength=3.0))(SOURCE, TARGET_IN, TARGET_OUT)
    loss.smoothed.backward()
    torch.manual_seed(9)
    source = SOURCE.repeat(2, 1)
    states, _ = theirs(source, source != 0, TARGET_IN.repeat(2, 1))
    first, second = (
        (part @ theirs.target_embedding.weight.T)[TARGET_OUT != 0].log_softmax(-1) for part in states.chunk(2)
    )
    likelihood = -(targets(0.1, "all") * (first + second) / 2).sum()
    divergence = (first.exp() * (first - second) + second.exp() * (second - first)).sum() / 2
    assert divergence > 0.1
    (likelihood + 3.0 / 2 * divergence).backward()
    assert loss.smoothed.item() == pytest.approx((likelihood + 3.0 / 2 * divergence).item(), rel=1e-12)
    for (name, parameter), expected in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize(("share", "twice"), [(0.1, 1), (0.5, 2), (0.67, 3)])
def test_r_drop_of_a_share_has_the_first_pairs_twice_and_the_others_once(share, twice):
    spec = validated(Transformer, {**SPEC.as_dictionary(), "dropout": 0.4}, place="model")
    mine, theirs = (spec.build(Vocabulary(source=10, target=7)).double().train() for _ in range(2))
    theirs.load_state_dict(mine.state_dict())
    smoothing = Smoothing(epsilon=0.1)
    torch.manual_seed(9)
    loss = TrainingObjective(mine, smoothing, RDrop(strength=3.0, share=share))(SOURCE, TARGET_IN, TARGET_OUT)
    loss.smoothed.backward()
    torch.manual_seed(9)
    source = torch.cat([SOURCE, SOURCE[:twice]])
    states, _ = theirs(source, source != 0, torch.cat([TARGET_IN, TARGET_IN[:twice]]))
    both = theirs.readout.consistent_loss((states[:twice], states[3:]), TARGET_OUT[:twice], smoothing, 3.0)
    once = theirs.readout.loss(states[twice:3], TARGET_OUT[twice:], smoothing)
    (both.smoothed + once.smoothed).backward()
    assert loss.smoothed.item() == pytest.approx((both.smoothed + once.smoothed).item(), rel=1e-12)
    assert loss.unsmoothed.item() == pytest.approx((both.unsmoothed + once.unsmoothed).item(), rel=1e-12)
    for (name, parameter), expected in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad, rtol=1e-9, atol=1e-12, msg=name)


def test_the_targets_of_a_vocabulary_of_seven():
    extra, share = Smoothing(epsilon=0.1, over="all").shares(7)
    assert (extra, share) == pytest.approx((0.9, 0.1 / 7), rel=1e-12)
    extra, share = Smoothing(epsilon=0.1, over="others").shares(7)
    assert (extra + share, share) == pytest.approx((0.9, 0.1 / 6), rel=1e-12)
