"""Tests the argument of section 3.2.1 for dividing the dot product by √d_k.

The experiment also measures what other compatibility functions cost.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from transduce.bench.timing import median_seconds
from transduce.corpus.store.preparation import PreparedCorpus
from transduce.corpus.store.token_store import SIDES
from transduce.model.attention import Attention
from transduce.model.transformer import TransformerModel
from transduce.model.translation_model import TranslationModel, Vocabulary
from transduce.paper.experiment_scales import ExperimentOptions, Scale, scale_named
from transduce.paper.finished_runs import one_of
from transduce.paper.printing import STYLES, panels, render_page
from transduce.paper.trials import Budget, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe.presets import Values
from transduce.recipe.recipe import Recipe
from transduce.runtime.device import choose_device
from transduce.settings import validated

KINDS = {"scaled_dot": "q · k / √d_k", "dot": "q · k", "bilinear": "qᵀ M k / √d_k", "additive": "v · tanh(q + k)"}
WIDTHS = (8, 16, 32, 64, 128, 256, 512)
NAMES = [f"{kind}-{d_k}" for kind in KINDS for d_k in WIDTHS]

HEADS, D_MODEL, D_V = 2, 128, 64
STEPS = 600  # at the small scale; at the paper's scale, models are trained for the steps of Table 3
SENTENCES, TOKENS = 32, 24  # size of the batch on which gradients and costs are measured
GRADIENT = f"size of the softmaxes' gradients over {SENTENCES} sentences of {TOKENS} words"  # a key in the records


class CompatibilityResult(NamedTuple):
    """The results of a compatibility function at one d_k.

    The size of a gradient is the mean Frobenius norm of the softmax's Jacobian. `unit_gradient` is measured on queries
    and keys whose components have variance 1, as section 3.2.1 assumes. `fresh_gradient` and `trained_gradient` are
    measured in the model before and after training.
    """

    kind: Annotated[str, one_of(KINDS)]
    d_k: int
    unit_gradient: float
    fresh_gradient: float
    trained_gradient: float | None
    training: TrialResult | None
    milliseconds: float  # of a forward and backward pass of one attention layer over a batch
    saved_bytes: int  # saved for the backward pass
    d_model: int


def run_scaling(options: ExperimentOptions) -> tuple[str, list[CompatibilityResult]]:
    """Trains the selected models, for example `additive-64`.

    Returns a description of the corpus, and the results of all models.
    """
    scale, work = scale_named(options.scale), options.work
    names = options.select_rows(NAMES)
    prepared = shared_store(recipe_of(scale, "scaled_dot", 8), work)
    batch, device = _batch(prepared), choose_device(options.training.device)
    vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
    measures, test = (
        {GRADIENT: lambda model, outputs: gradient_size(model.module, batch)},
        scale.corpus_named("validation"),
    )
    budget = Budget("steps", STEPS if scale.name == "small" else scale.steps, options.minutes)
    trials = {
        (kind, d_k): Trial(f"{kind}-{d_k}", recipe_of(scale, kind, d_k), test, measures)
        for kind in KINDS
        for d_k in WIDTHS
    }
    for trial in trials.values():
        if trial.name in names:
            run_trial(trial, work, [budget], options.training)
    rows = []
    for (kind, d_k), trial in trials.items():  # read after all runs, because other processes may have trained rows
        result = read_trial(trial, work, budget)
        torch.manual_seed(1)
        fresh_gradient = gradient_size(trial.recipe.model.build(vocabulary).eval(), batch)
        rows.append(
            CompatibilityResult(
                kind,
                d_k,
                unit_gradient(kind, d_k),
                fresh_gradient,
                result.measures.get(GRADIENT) if result else None,
                result,
                *measure_cost(_attention(kind, d_k), device, _d_model(scale)),
                _d_model(scale),
            )
        )
    return scale.corpus, rows


def recipe_of(scale: Scale, kind: str, d_k: int) -> Recipe:
    """Returns the recipe of a Transformer whose attention layers all use this compatibility function."""
    attention, is_small = _attention(kind, d_k), scale.name == "small"
    layers = 2 if is_small else 6
    model: Values = {
        "kind": "transformer",
        "d_model": _d_model(scale),
        "encoder_layers": layers,
        "decoder_layers": layers,
        "mixer": attention,
        "cross": attention,
        "feed_forward": {"kind": "feed_forward", "d_ff": (2 if is_small else 4) * _d_model(scale)},
    }
    training: Values = {"steps": None, "average": None, "save_every": 1000}
    if is_small:
        training |= {"schedule": {"warmup": 200}}
    return scale.recipe(model, training, f"{kind}-{d_k}")


def _d_model(scale: Scale) -> int:
    return D_MODEL if scale.name == "small" else 4 * D_MODEL


def _attention(kind: str, d_k: int) -> Values:
    """Returns the settings of an attention layer with this compatibility function."""
    return {"kind": "attention", "heads": HEADS, "d_k": d_k, "d_v": D_V, "compatibility": {"kind": kind}}


def _batch(prepared: PreparedCorpus) -> tuple[Tensor, Tensor]:
    """Returns the sources and targets of training pairs that have at least `TOKENS` tokens per side.

    They are truncated to `TOKENS` tokens.
    """
    store = prepared.train
    pairs = ((store.source_lengths >= TOKENS) & (store.target_lengths >= TOKENS)).nonzero()[0][:SENTENCES]
    source, target = (torch.from_numpy(store.padded(side, pairs, TOKENS)[0]) for side in SIDES)
    return source, target


def gradient_size(model: TranslationModel, batch: tuple[Tensor, Tensor]) -> float:
    """Computes the mean of ‖diag(p) − p pᵀ‖ over the rows p of a Transformer's attention weights on a batch."""
    source, target = (side.to(next(model.parameters()).device) for side in batch)
    assert isinstance(model, TransformerModel)
    with torch.no_grad():
        weights = model.attention_weights(source, torch.ones_like(source, dtype=torch.bool), target)
        sizes = [_jacobian_norm(layer).mean() for layers in weights for layer in layers]
    return float(torch.stack(sizes).mean())


def unit_gradient(kind: str, d_k: int) -> float:
    """Computes the mean of ‖diag(p) − p pᵀ‖ for queries and keys whose components are drawn from N(0, 1).

    In a model, the components are smaller the wider the model is, because Glorot's bound decreases with the width.
    """
    torch.manual_seed(1)
    compatibility = validated(Attention, _attention(kind, d_k), place="attention").compatibility.build(HEADS, d_k)
    queries, keys = torch.randn(2, SENTENCES, HEADS, TOKENS, d_k)
    with torch.no_grad():
        return float(_jacobian_norm(compatibility(queries, keys).softmax(-1)).mean())


def _jacobian_norm(weights: Tensor) -> Tensor:
    """Computes ‖diag(p) − p pᵀ‖ for each row p, as the square root of Σp² − 2 Σp³ + (Σp²)²."""
    squares = weights.square().sum(-1)
    return (squares - 2 * weights.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()


def measure_cost(attention: Values, device: torch.device, d_model: int) -> tuple[float, int]:
    """Measures one self-attention layer on a batch.

    Returns the milliseconds of a forward and backward pass, and the bytes that are saved for the backward pass.
    """
    module = validated(Attention, attention, place="attention").build(d_model).to(device)
    states = torch.randn(SENTENCES, TOKENS, d_model, device=device)
    storages: dict[int, int] = {}

    def note_storage(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note_storage, lambda tensor: tensor):
        module.mix(states, None, causal=False).sum()

    def step() -> None:
        module.mix(states, None, causal=False).sum().backward()

    return 1000 * median_seconds(step, device, runs=10), sum(storages.values())


def mean_perplexities(rows: Sequence[CompatibilityResult]) -> tuple[list[int], dict[str, float]]:
    """Returns the d_k at which all kinds were trained for all steps, and each kind's mean perplexity over them.

    Kinds without a complete run are left out.
    """
    perplexities: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.training and row.training.is_complete:
            perplexities.setdefault(row.kind, {})[row.d_k] = row.training.perplexity
    widths = [d_k for d_k in WIDTHS if perplexities and all(d_k in by_width for by_width in perplexities.values())]
    return widths, {
        kind: statistics.fmean(by_width[d_k] for d_k in widths) for kind, by_width in perplexities.items() if widths
    }


def as_text(rows: Sequence[CompatibilityResult]) -> str:
    """Renders the table, which has a row for each compatibility function and d_k, and the sentences that explain it."""
    widths, perplexities = mean_perplexities(rows)
    return render_page(
        "scaling.md.jinja",
        rows=rows,
        kinds=KINDS,
        widths=widths,
        perplexities=perplexities,
        tokens=TOKENS,
        sentences=SENTENCES,
    )


def draw(rows: Sequence[CompatibilityResult], path: Path) -> None:
    """Plots the gradients, the perplexity, the time and the memory against d_k, in five panels."""
    from matplotlib.ticker import LogLocator

    titles = [
        "softmax's gradient, of unit q and k",
        "of the model's, trained (dotted: fresh)",
        "perplexity",
        "milliseconds",
        "MiB saved for backward",
    ]
    with panels(path, titles, columns=3, height=3.3) as (unit, gradient, perplexity, time, memory):
        for number, (kind, name) in enumerate(KINDS.items()):
            of_kind, colour, style = [row for row in rows if row.kind == kind], f"C{number}", STYLES[number]
            widths = [row.d_k for row in of_kind]
            trained = [(row, row.training) for row in of_kind if row.training]
            trained_widths = [row.d_k for row, _ in trained]
            perplexity.plot(trained_widths, [training.perplexity for _, training in trained], style, color=colour)
            unit.plot(widths, [row.unit_gradient for row in of_kind], style, color=colour)
            gradient.plot(widths, [row.fresh_gradient for row in of_kind], ":", color=colour)
            gradient.plot(trained_widths, [row.trained_gradient for row, _ in trained], style, color=colour)
            time.plot(widths, [row.milliseconds for row in of_kind], style, color=colour, label=name)
            memory.plot(widths, [row.saved_bytes / 2**20 for row in of_kind], style, color=colour)
        for panel in (time, memory):
            panel.set_yscale("log")
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:g}")
        for panel in (unit, gradient, perplexity, time, memory):
            panel.set(xscale="log", xlabel="d_k", xticks=WIDTHS, xticklabels=[str(width) for width in WIDTHS])
            panel.minorticks_off()
        for panel in (unit, gradient):
            panel.set_ylim(0, 0.4)
        time.legend(frameon=False)
