"""Candidates for a recipe: an initial guess, which is based on the size of the corpus, and variations on it.

Variations have a different number of tokens per step, or use the next larger or smaller model with its own learning
rate. The values for `tiny` were measured (docs/experiments.md). The values for `small` and `base`, and the vocabulary
sizes, are common defaults that were not measured.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from transduce.settings import merged

Values = dict[str, Any]

# On Multi30k (29,000 pairs), 9,000 steps of 2,048 positions (37 epochs) with R-Drop on all pairs gave better results
# than 12,000 steps without R-Drop. However, 3,000 steps with R-Drop were not better than 6,000 steps without it, and
# R-Drop did not help with smaller batches either.
R_DROP_PAIRS, R_DROP_BATCH, R_DROP_STEPS, R_DROP_EPOCHS = 200_000, 2048, 9000, 35
R_DROP_COST = 1.45  # time of a step with R-Drop on half of the pairs, relative to a step without it, on a CPU

# A dropout of 0.3 is meant for runs that read each pair many times. With 0.1, BLEU was 4.4 points higher on chat after
# 9 epochs, 1.7 points higher on chat after 20 epochs, and 4.4 points higher on help pages after 7 epochs
# (docs/experiments.md).
DROPOUT, DROPOUT_OF_FEW_EPOCHS, FEW_EPOCHS = 0.3, 0.1, 20

# The default number of steps between validations and between checkpoints. In a short run, the number is smaller, so
# that there are SHORT_PARTS validations and checkpoints.
USUAL_STEPS, SHORT_PARTS = 500, 4

LINEAR = {"kind": "linear", "warmup": 1000, "peak": 5e-3}


class ModelSize(NamedTuple):
    """A preset for corpora of fewer than `pairs` pairs, with its tokens per step and its peak learning rate."""

    preset: str
    pairs: float
    batch_tokens: int
    peak: float


SIZES = [
    ModelSize("tiny", 50_000, 2048, 5e-3),
    ModelSize("small", 1_000_000, 4096, 2e-3),
    ModelSize("base", float("inf"), 8192, 7e-4),
]


class RecipeCandidate(NamedTuple):
    """A recipe to try, without its corpora, and the name under which it is reported."""

    name: str
    values: Values


def subword_count(pairs: int) -> int:
    """Returns the vocabulary size for a corpus with this number of pairs."""
    return next(
        (size for limit, size in ((20_000, 4000), (200_000, 10_000), (2_000_000, 16_000)) if pairs < limit), 32_000
    )


def candidates(pairs: int, fixed: Mapping[str, Any]) -> list[RecipeCandidate]:
    """Returns the recipes to try for a corpus with this number of pairs, beginning with the first guess.

    Values in `fixed` override the values of every candidate. If this makes candidates equal, only one of them is
    returned.
    """
    distinct: dict[str, RecipeCandidate] = {}
    model = fixed.get("model", {})
    for size, batch_tokens in _variants(pairs, model.get("preset")):
        own: Values = {
            "subwords": {"kind": "bpe", "size": subword_count(pairs), "shared": True},
            "model": {"preset": size.preset, "dropout": DROPOUT if pairs < 200_000 else DROPOUT_OF_FEW_EPOCHS},
            "training": {
                "steps": None,
                "batch_tokens": batch_tokens,
                "optimiser": {"kind": "muon"},
                "schedule": {**LINEAR, "peak": size.peak},
            },
        }
        if model.get("kind") == "transformer":  # otherwise `merged` would treat it as a change of kind
            own["model"]["kind"] = "transformer"
        values = merged(own, fixed)
        tokens = values["training"]["batch_tokens"]
        tokens = f"{tokens:,}" if isinstance(tokens, int) else "a ramp of"
        name = f"{values['model'].get('preset') or values['model']['kind']}, {tokens} tokens a step"
        distinct.setdefault(repr(values), RecipeCandidate(name, values))
    return list(distinct.values())


def may_have_r_drop(fixed: Mapping[str, Any]) -> bool:
    """Returns True if R-Drop may be added, because the recipe neither sets a regulariser nor switches dropout off."""
    return "regulariser" not in fixed.get("training", {}) and fixed.get("model", {}).get("dropout") != 0


def r_drop_pays(pairs: int, batch_tokens: object, steps: int, epochs: float) -> bool:
    """Returns True if R-Drop is likely to improve the model.

    The corpus must be as small, the batches as large and the run as long as in the experiments in which R-Drop helped.
    """
    is_large = isinstance(batch_tokens, int) and batch_tokens >= R_DROP_BATCH
    return pairs < R_DROP_PAIRS and is_large and steps >= R_DROP_STEPS and epochs >= R_DROP_EPOCHS


def with_r_drop(values: Values, fixed: Mapping[str, Any]) -> Values:
    """Adds R-Drop to a candidate, with the dropout that works best with it. Values in `fixed` take precedence."""
    changes = {"model": {"dropout": 0.1}, "training": {"regulariser": {"kind": "r_drop", "share": 0.5}}}
    changed: Values = merged(merged(values, changes), fixed)
    return changed


def with_dropout(values: Values, epochs: float, fixed: Mapping[str, Any]) -> Values:
    """Lowers the dropout of a candidate if its run has only a few epochs. Values in `fixed` take precedence."""
    if epochs >= FEW_EPOCHS:
        return values
    changed: Values = merged(merged(values, {"model": {"dropout": DROPOUT_OF_FEW_EPOCHS}}), fixed)
    return changed


def with_checkpoints(values: Values, steps: int, fixed: Mapping[str, Any]) -> Values:
    """Makes a candidate validate and save more often if its run has few steps. Values in `fixed` take precedence."""
    every = max(1, steps // SHORT_PARTS)
    if every >= USUAL_STEPS:
        return values
    changed: Values = merged(merged(values, {"training": {"validate_every": every, "save_every": every}}), fixed)
    return changed


def _variants(pairs: int, preset: str | None) -> Iterator[tuple[ModelSize, int]]:
    """Yields the model size and the tokens per step of each candidate.

    If the recipe names a `preset`, only the tokens per step vary.
    """
    number = next(number for number, size in enumerate(SIZES) if pairs < size.pairs)
    size, tokens = SIZES[number], SIZES[number].batch_tokens
    named = next((size for size in SIZES if size.preset == preset), size)
    for batch_tokens in (tokens, tokens // 2, tokens * 2):
        yield named, batch_tokens
    for other in (number + 1, number - 1):
        if preset is None and 0 <= other < len(SIZES):
            yield SIZES[other], tokens
