"""The argument of section 3.2.1: why the dot product is divided by √d_k, and what other compatibilities cost."""

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transduce.bench.measurement import median_seconds
from transduce.corpus import Prepared
from transduce.corpus.token_store import SIDES
from transduce.model import Attention, TransformerModel, TranslationModel, Vocabulary
from transduce.model_directory import Model
from transduce.paper.scales import Scale
from transduce.paper.trials import Budget, Say, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe import Recipe
from transduce.recipe.presets import Values
from transduce.runtime.device import choose_device
from transduce.settings import validated
from transduce.trainer.train import TrainOptions

KINDS = {"scaled_dot": "q · k / √d_k", "dot": "q · k", "bilinear": "qᵀ M k / √d_k", "additive": "v · tanh(q + k)"}
WIDTHS = (8, 16, 32, 64, 128, 256, 512)
NAMES = [f"{kind}-{d_k}" for kind in KINDS for d_k in WIDTHS]

HEADS, D_MODEL, D_V = 2, 128, 64
STEPS = 600  # at the small scale; at the paper's, those of Table 3
SENTENCES, WORDS = 32, 24  # of the batch on which time and memory are taken
BUDGET = "steps"


class CompatibilityResult(NamedTuple):
    """A compatibility at a width; a gradient's size is the mean Frobenius norm of the softmax's Jacobian."""

    kind: str
    d_k: int
    unit: float  # the softmax's gradient where queries and keys have components of variance 1, as section 3.2.1 has it
    fresh: float  # that of the model's before training
    trained: float | None  # and after it
    found: TrialResult | None
    milliseconds: float  # forward and backward, of one attention over a batch
    kept: int  # bytes that it keeps for the gradient
    width: int  # of the model: d_model


def scaling(
    at: Scale, names: Sequence[str], minutes: float | None, work: Path, options: TrainOptions, say: Say
) -> list[CompatibilityResult]:
    """Trains what is named, and gathers what is known of all."""
    prepared = shared_store(recipe_of(at, "scaled_dot", 8), work, say)
    batch = _batch(prepared)
    gradient = f"size of the softmaxes' gradients over {SENTENCES} sentences of {WORDS} words"
    asked = []
    for kind in KINDS:
        for d_k in WIDTHS:
            name, recipe = f"{kind}-{d_k}", recipe_of(at, kind, d_k)
            trial = Trial(name, recipe, at.corpus_named("validation"), {gradient: partial(_trained_gradient, batch)})
            budget = Budget(BUDGET, STEPS if at.name == "small" else at.steps, minutes)
            if name in names:
                run_trial(trial, work, [budget], options, say)
            asked.append((kind, d_k, trial, budget))
    device, rows = choose_device(options.device), []
    for kind, d_k, trial, budget in asked:  # other processes have trained rows of it meanwhile
        found = read_trial(trial, work, budget)
        sizes = Vocabulary(source=prepared.source.size, target=prepared.target.size)
        torch.manual_seed(1)
        fresh = gradient_size(trial.recipe.model.build(sizes).eval(), batch)
        trained = found.also.get(gradient) if found else None
        spent = cost(_attention(kind, d_k), device, _width(at))
        rows.append(CompatibilityResult(kind, d_k, unit_gradient(kind, d_k), fresh, trained, found, *spent, _width(at)))
    return rows


def recipe_of(at: Scale, kind: str, d_k: int) -> Recipe:
    """The recipe of a Transformer whose every attention has this compatibility."""
    attention = _attention(kind, d_k)
    layers = 2 if at.name == "small" else 6
    model: Values = {
        "kind": "transformer",
        "d_model": _width(at),
        "encoder_layers": layers,
        "decoder_layers": layers,
        "mixer": attention,
        "cross": attention,
        "feed_forward": {"kind": "feed_forward", "d_ff": (2 if at.name == "small" else 4) * _width(at)},
    }
    training: Values = {"steps": None, "average": None, "save_every": 1000}
    if at.name == "small":
        training |= {"schedule": {"warmup": 200}}
    return at.recipe(model, training, f"{kind}-{d_k}")


def _width(at: Scale) -> int:
    """Of the model: d_model."""
    return D_MODEL if at.name == "small" else 4 * D_MODEL


def _trained_gradient(batch: tuple[Tensor, Tensor], model: Model, _outputs: Sequence[str]) -> float:
    return gradient_size(model.module, batch)


def gradient_size(model: TranslationModel, batch: tuple[Tensor, Tensor]) -> float:
    """How much of a gradient the softmaxes of attention let through: the mean of ‖diag(p) − p pᵀ‖ over their rows."""
    source, target = (side.to(next(model.parameters()).device) for side in batch)
    assert isinstance(model, TransformerModel)
    with torch.no_grad():
        weights = model.attention_weights(source, torch.ones_like(source, dtype=torch.bool), target)
        sizes = [_jacobian(layer).mean() for layers in weights for layer in layers]
    return float(torch.stack(sizes).mean())


def unit_gradient(kind: str, d_k: int) -> float:
    """The same of one softmax over as many keys, were all components of queries and keys drawn from N(0, 1).

    A model's are not: Glorot's bound makes them the smaller the more of them there are.
    """
    torch.manual_seed(1)
    compatibility = validated(Attention, _attention(kind, d_k), place="attention").compatibility.build(HEADS, d_k)
    queries, keys = torch.randn(2, SENTENCES, HEADS, WORDS, d_k)
    with torch.no_grad():
        return float(_jacobian(compatibility(queries, keys).softmax(-1)).mean())


def _jacobian(weights: Tensor) -> Tensor:
    """‖diag(p) − p pᵀ‖ of each row p: its square is Σp² − 2 Σp³ + (Σp²)²."""
    squares = weights.square().sum(-1)
    return (squares - 2 * weights.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()


def cost(attention: Values, device: torch.device, width: int) -> tuple[float, int]:
    """Milliseconds, and bytes kept for the gradient, of one self-attention over a batch."""
    spec = validated(Attention, attention, place="attention")
    module = spec.build(width).to(device)
    states = torch.randn(SENTENCES, WORDS, width, device=device)
    storages: dict[int, int] = {}

    def noted(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(noted, lambda tensor: tensor):
        module.mix(states, None, causal=False).sum()

    def step() -> None:
        module.mix(states, None, causal=False).sum().backward()

    return 1000 * median_seconds(step, device, runs=10), sum(storages.values())


def summary(rows: Sequence[CompatibilityResult]) -> tuple[list[int], dict[str, float]]:
    """The widths at which every kind that is trained at all is trained whole, and each kind's mean perplexity there."""
    known = {
        kind: {row.d_k: row.found.perplexity for row in rows if row.kind == kind and row.found and row.found.reached}
        for kind in KINDS
    }
    trained = {kind: found for kind, found in known.items() if found}
    widths = [width for width in WIDTHS if trained and all(width in found for found in trained.values())]
    return widths, {
        kind: statistics.fmean(found[width] for width in widths) for kind, found in trained.items() if widths
    }


def _attention(kind: str, d_k: int) -> Values:
    """Two heads of this compatibility."""
    return {"kind": "attention", "heads": HEADS, "d_k": d_k, "d_v": D_V, "compatibility": {"kind": kind}}


def _batch(prepared: Prepared) -> tuple[Tensor, Tensor]:
    """Sentences of equal length, of the training data, as source and as target."""
    store = prepared.train
    fitting = ((store.source_lengths >= WORDS) & (store.target_lengths >= WORDS)).nonzero()[0][:SENTENCES]
    source, target = (torch.from_numpy(store.padded(side, fitting, WORDS)[0]) for side in SIDES)
    return source, target


def as_dictionary(rows: Sequence[CompatibilityResult]) -> list[dict[str, Any]]:
    """For JSON."""
    return [{**row._asdict(), "found": row.found and row.found._asdict()} for row in rows]
