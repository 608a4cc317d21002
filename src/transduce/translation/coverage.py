"""The coverage penalty (Wu et al. 2016, equation 14): what leaves source tokens without attention ranks lower.

Beam search runs as without the penalty and ends with as many hypotheses as the beam is wide. One pass of the decoder
over these hypotheses gives the attention weights by which they are ranked anew, so that each step of the search costs
what it costs without the penalty.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transduce.model import TransformerModel, TranslationModel
from transduce.search import Hypothesis, SearchProblem, Stepper, beam_search, pad_rows
from transduce.translation.search_method import SearchMethod

__all__ = ["beam_search_with_coverage", "check_coverage", "coverage"]

SENTENCES_AT_ONCE = 32  # in the pass for attention weights


def check_coverage(models: Sequence[TranslationModel], method: SearchMethod) -> None:
    """Raises ValueError where `method` has a coverage penalty, and a model has no attention over the source."""
    if method.ranks_by_coverage and not all(isinstance(model, TransformerModel) for model in models):
        raise ValueError(
            "the coverage penalty needs the Transformer's attention over the source, which this model does not have: "
            "leave out `decoding.coverage_penalty` and --coverage-penalty, or set --coverage-penalty 0"
        )


def beam_search_with_coverage(
    stepper: Stepper,
    problem: SearchProblem,
    method: SearchMethod,
    models: Sequence[TranslationModel],
    tag_count: int = 0,
    *,
    compiled: bool = False,
) -> list[list[Hypothesis]]:
    """Returns the `method.n_best` hypotheses of each sentence, best first; their score has β · coverage added.

    `stepper` searches with `models`, whose attention counts. The first `tag_count` tokens and the end symbol need no
    attention. `compiled` is that of `beam_search`. Raises ValueError as `check_coverage`.
    """
    check_coverage(models, method)
    results = beam_search(stepper, problem, method.decoding, method.decoding.beam, compiled=compiled)
    for first in range(0, len(results), SENTENCES_AT_ONCE):
        some = slice(first, first + SENTENCES_AT_ONCE)
        part = problem._replace(source=problem.source[some], visible=problem.visible[some], bounds=problem.bounds[some])
        results[some] = _ranked(results[some], part, method, models, tag_count)
    return results


def coverage(
    weights: Float[Tensor, "rows target source"],
    written: Bool[Tensor, "rows target"],
    covered: Bool[Tensor, "rows source"],
) -> Float[Tensor, " rows"]:
    """Returns Σ_i log min(Σ_j p_ij, 1) of each row: 0 where every source token i has an attention of 1 or more.

    p_ij are `weights`; the sums are over the steps j of `written` and the source tokens i of `covered`.
    """
    sums = (weights * written.unsqueeze(2)).sum(1)
    return sums.clamp(torch.finfo(sums.dtype).tiny, 1).log().masked_fill(~covered, 0).sum(1)


def _ranked(
    results: Sequence[Sequence[Hypothesis]],
    problem: SearchProblem,
    method: SearchMethod,
    models: Sequence[TranslationModel],
    tag_count: int,
) -> list[list[Hypothesis]]:
    """Returns the best hypotheses of each sentence by score + β · coverage."""
    sentences = torch.tensor(
        [number for number, hypotheses in enumerate(results) for _ in hypotheses], device=problem.source.device
    )
    # A hypothesis that was cut at the bound of its sentence fills all positions, so that its last token is no input.
    inputs = [
        [problem.begin, *hypothesis.tokens][:bound]
        for hypotheses, bound in zip(results, problem.bounds.tolist(), strict=True)
        for hypothesis in hypotheses
    ]
    lengths = torch.tensor(list(map(len, inputs)), device=problem.source.device)
    target_in = pad_rows(inputs, problem.end, problem.source.device)
    written = torch.arange(target_in.shape[1], device=target_in.device) < lengths.unsqueeze(1)
    covered = problem.visible & (problem.source != problem.end)
    covered[:, :tag_count] = False
    penalties = coverage(_weights(models, problem, target_in, sentences), written, covered[sentences])
    beta, remaining = method.decoding.coverage_penalty or 0.0, iter(penalties.tolist())
    ranked = [[one._replace(score=one.score + beta * next(remaining)) for one in hypotheses] for hypotheses in results]
    return [sorted(some, key=lambda one: one.score, reverse=True)[: method.n_best] for some in ranked]


def _weights(
    models: Sequence[TranslationModel], problem: SearchProblem, target_in: Tensor, sentences: Tensor
) -> Float[Tensor, "rows target source"]:
    """Returns the attention to the source at each step, the mean over the heads and over the models."""
    means = []
    for model in models:
        assert isinstance(model, TransformerModel)
        weights = model.cross_weights(problem.source, problem.visible, target_in, sentences)
        means.append(weights.float().mean(1))
    return torch.stack(means).mean(0)
