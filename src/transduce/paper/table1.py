"""Reproduces Table 1: counts operations, measures times, fits exponents, and traces sequential operations and paths."""

import logging
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import nn

from transduce.model.feed_forward import FeedForward
from transduce.paper.counting import count_operations, kept_for_backward, longest_chain
from transduce.paper.experiment_scales import ExperimentOptions
from transduce.paper.finished_runs import one_of
from transduce.paper.layer_kinds import (
    CONVOLUTION,
    KINDS,
    RECURRENT,
    SELF_ATTENTION,
    SEPARABLE_BY_FEATURE,
    SEPARABLE_BY_POSITION,
    LayerKind,
    Shape,
    longest_path,
)
from transduce.paper.printing import STYLES, panels, render_page
from transduce.runtime.device import choose_device

_log = logging.getLogger("transduce")

# The values of each variable, and the sizes of the others, which are so large that products take longer than their
# calls. A recurrence multiplies one vector of each sentence at a time, so that times over d need many sentences.
GRID = {
    "n": [64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "d": [64, 128, 256, 512, 1024, 2048, 4096],
    "k": [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    "r": [16, 32, 64, 128, 256, 512],
}
MIDDLE = {
    "n": Shape(n=512, d=128, k=7, r=32),
    "d": Shape(n=64, d=256, k=3, r=16),
    "k": Shape(n=2048, d=128),
    "r": Shape(n=4096, d=128),
}
SENTENCES = {"n": 1, "d": 64, "k": 1, "r": 1}
WIDTHS = [64, 128, 256, 512, 1024]  # at which the crossover of self-attention and recurrence is measured
LEAST_SECONDS = 0.2  # of all calls of a measurement together
OCTAVES = 3  # the largest ones, over which the exponent of time is fitted
MEMORY_LENGTHS = [256, 512, 1024, 2048]
PATHS = {"n": [17, 33, 65, 129], "k": [3, 5, 9], "r": [1, 2, 4]}


class ExponentFit(NamedTuple):
    """The exponent of a variable, as stated by the paper, as counted in operations, and as measured in time."""

    variable: str
    stated: float
    counted: float
    timed: float
    points: list[tuple[int, float, float]]  # value, operations, milliseconds


class LayerCosts(NamedTuple):
    """The measured costs of a kind of layer."""

    layer: Annotated[str, one_of(kind.name for kind in KINDS)]
    exponents: list[ExponentFit]
    sequential: list[tuple[int, int]]  # n, matrix products of the longest chain
    paths: list[tuple[Shape, int | None]]
    memory: list[tuple[int, float]]  # n, MiB kept for the backward pass of one sentence

    @property
    def kind(self) -> LayerKind:
        """The kind of layer that was measured."""
        return next(kind for kind in KINDS if kind.name == self.layer)

    @property
    def counted(self) -> str:
        """The exponents of the counted operations, as text."""
        return ", ".join(f"{fit.variable}^{fit.counted:.2f}" for fit in self.exponents)

    @property
    def timed(self) -> str:
        """The exponents of the measured times, as text."""
        return ", ".join(f"{fit.variable}^{fit.timed:.2f}" for fit in self.exponents)

    @property
    def measured_sequential(self) -> str:
        """The numbers of sequential products, and the lengths at which they were counted, as text."""
        lengths, products = zip(*self.sequential, strict=True)
        return f"{_join_distinct(products)} at n {_join_distinct(lengths)}"

    @property
    def memory_exponent(self) -> float:
        """The exponent of the length in the memory, over the last octave."""
        return exponent(*zip(*self.memory[-2:], strict=True))


class Crossover(NamedTuple):
    """The length above which self-attention costs more than a recurrence."""

    counted: float  # in operations
    timed: float | None  # in time; None: at no measured length


class Claims(NamedTuple):
    """The measurements for the claims that section 4 makes in addition to Table 1."""

    crossover: dict[int, Crossover]  # by width
    # n, d, and operations of a separable convolution of k = n, divided by the operations of self-attention and a
    # feed-forward network with d_ff = d
    separable: list[tuple[int, int, float]]
    recurrences: dict[int, float]  # k → operations of a convolution, divided by the operations of a recurrence


class LayerMeasurements(NamedTuple):
    """The costs of all kinds of layers, and the measurements for the claims of section 4."""

    layers: list[LayerCosts]
    claims: Claims


def run_table1(options: ExperimentOptions) -> tuple[str, LayerMeasurements]:
    """Measures all kinds of layers and the claims of section 4; the description of the corpus is empty.

    Raises ValueError if rows are selected, because Table 1 trains none.
    """
    if options.rows:
        raise ValueError("--row: Table 1 trains no rows; leave it out")
    device = choose_device(options.training.device)
    layers = measure_layers(device, options.repeats)
    return "", LayerMeasurements(layers, measure_claims(device, options.repeats))


def measure_layers(device: torch.device, repeats: int) -> list[LayerCosts]:
    """Measures the costs of every kind of layer; each time is the median of at least `repeats` calls."""
    rows = []
    for kind in KINDS:
        _log.info(kind.name)
        exponents = [_fit_exponent(kind, variable, device, repeats) for variable in kind.powers]
        sequential = [(n, _sequential_products(kind, n)) for n in (8, 16, 32)]
        middle = Shape(n=65, d=4, k=3, r=2)
        shapes = [middle._replace(n=n) for n in PATHS["n"]] if kind.path else []
        for variable in ("k", "r"):
            if kind.path and variable in kind.powers:
                shapes += [middle._replace(**{variable: value}) for value in PATHS[variable]]
        paths = [(shape, longest_path(kind, shape)) for shape in shapes]
        memory = [(n, _kept_mebibytes(kind, n)) for n in MEMORY_LENGTHS]
        rows.append(LayerCosts(kind.name, exponents, sequential, paths, memory))
    return rows


def measure_claims(device: torch.device, repeats: int) -> Claims:
    """Measures the crossover of self-attention and recurrence, and the ratios that section 4 states."""
    separable = []
    for n, d in product((64, 256, 1024), (64, 256, 1024)):
        shape = Shape(n=n, d=d, k=n)
        feed_forward = operations(FeedForward(d_ff=d).build(d), shape)
        both = (SEPARABLE_BY_FEATURE, SEPARABLE_BY_POSITION)
        separable_operations = sum(operations(kind.build(shape), shape) for kind in both)
        attention = operations(SELF_ATTENTION.build(shape), shape)
        separable.append((n, d, separable_operations / (attention + feed_forward)))
    crossover = {}
    for d in WIDTHS:
        shape = Shape(n=d, d=d)  # attention grows by n², a recurrence by n
        counted = d * operations(RECURRENT.build(shape), shape) / operations(SELF_ATTENTION.build(shape), shape)
        crossover[d] = Crossover(counted, _timed_crossover(d, device, repeats))
    shape = MIDDLE["k"]
    recurrence = operations(RECURRENT.build(shape), shape)
    recurrences = {k: operations(CONVOLUTION.build(shape._replace(k=k)), shape) / recurrence for k in GRID["k"]}
    return Claims(crossover, separable, recurrences)


def operations(module: nn.Module, shape: Shape) -> int:
    """Counts the floating-point operations of a forward pass over one sentence, without allocating memory."""
    with torch.device("meta"):
        return count_operations(lambda: module.to("meta")(torch.empty(1, shape.n, shape.d)))


def milliseconds(module: nn.Module, shape: Shape, device: torch.device, repeats: int, sentences: int = 1) -> float:
    """Returns the median time of a forward pass in milliseconds.

    The median is taken over at least `repeats` passes, after one pass to warm up.
    """
    states = torch.randn(sentences, shape.n, shape.d, device=device)
    times: list[float] = []
    module = module.to(device).eval()
    with torch.inference_mode():
        while len(times) <= repeats or sum(times) < 1000 * LEAST_SECONDS:
            began = time.perf_counter()
            module(states)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[1:])


def exponent(values: Sequence[float], costs: Sequence[float]) -> float:
    """Returns the slope of the straight line fitted to log cost over log value."""
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def _fit_exponent(kind: LayerKind, variable: str, device: torch.device, repeats: int) -> ExponentFit:
    """Counts operations and measures times for all values of one variable, while the other variables are fixed."""
    points = []
    for value in GRID[variable]:
        shape = MIDDLE[variable]._replace(**{variable: value})
        count = operations(kind.build(shape), shape)
        points.append(
            (value, float(count), milliseconds(kind.build(shape), shape, device, repeats, SENTENCES[variable]))
        )
    values, counts, times = zip(*points, strict=True)
    largest = slice(-OCTAVES - 1, None)
    return ExponentFit(
        variable, kind.powers[variable], exponent(values, counts), exponent(values[largest], times[largest]), points
    )


def _sequential_products(kind: LayerKind, n: int) -> int:
    """Returns the length of the longest chain of dependent matrix products at length n."""
    module = kind.build(Shape(n, 8, 3, 2))
    return longest_chain(lambda: module(torch.randn(1, n, 8)))


def _kept_mebibytes(kind: LayerKind, n: int) -> float:
    """Returns the MiB of activations that one sentence of length n keeps for the backward pass."""
    shape = MIDDLE["n"]._replace(n=n)
    return kept_for_backward(kind.build(shape), torch.randn(1, n, shape.d)) / 2**20


def _timed_crossover(d: int, device: torch.device, repeats: int) -> float | None:
    """Returns the length above which self-attention takes longer than a recurrence.

    The length is interpolated between the measured lengths. Returns None if self-attention is faster at all measured
    lengths.
    """
    before: tuple[int, float] | None = None
    for n in GRID["n"]:
        shape = Shape(n=n, d=d)
        times = [milliseconds(kind.build(shape), shape, device, repeats) for kind in (SELF_ATTENTION, RECURRENT)]
        log_ratio = math.log(times[0] / times[1])
        if log_ratio > 0:
            if before is None:
                return float(n)
            share = -before[1] / (log_ratio - before[1])
            return float(before[0] * (n / before[0]) ** share)
        before = (n, log_ratio)
    return None


def as_text(measurements: LayerMeasurements) -> str:
    """Renders the tables of exponents and paths, and the tables for the claims of section 4."""
    ranges = {}
    usual_exponents = []
    for row in measurements.layers:
        for fit in row.exponents:
            values = [value for value, _, _ in fit.points][-OCTAVES - 1 :]
            ranges[fit.variable] = f"{fit.variable} {values[0]:,} to {values[-1]:,}"
            if fit.variable == "d":
                points = [(value, took) for value, _, took in fit.points if value <= WIDTHS[-1]][-OCTAVES - 1 :]
                usual_exponents.append(f"{row.kind.name} {exponent(*zip(*points, strict=True)):.2f}")
    return render_page(
        "table1.md.jinja",
        rows=measurements.layers,
        claims=measurements.claims,
        ranges=ranges,
        memory_lengths=MEMORY_LENGTHS,
        memory_shape=MIDDLE["n"],
        usual_exponents=usual_exponents,
        sentences=SENTENCES["d"],
        tokens=MIDDLE["d"].n,
        widest=WIDTHS[-1],
        longest=GRID["n"][-1],
    )


def draw(measurements: LayerMeasurements, path: Path) -> None:
    """Plots time against each variable on logarithmic axes, with the slope that the paper states."""
    titles = {"n": "length n", "d": "width d", "k": "kernel k", "r": "neighbours r"}
    with panels(path, [f"time against {title}" for title in titles.values()], height=4, share_y=True) as axes:
        for panel, variable in zip(axes, titles, strict=True):
            ticks: tuple[int, ...] = ()
            for number, row in enumerate(measurements.layers):
                for fit in row.exponents:
                    if fit.variable == variable:
                        values, _, times = zip(*fit.points, strict=True)
                        ticks, style = values, STYLES[number % len(STYLES)]
                        panel.plot(values, times, style, color=f"C{number}", label=row.kind.name)
                        last = list(zip(values, times, strict=True))[-4:]
                        stated = [last[-1][1] * (value / last[-1][0]) ** fit.stated for value, _ in last]
                        panel.plot([value for value, _ in last], stated, ":", color="black", linewidth=0.8)
            panel.set(xscale="log", yscale="log", xlabel=f"{titles[variable]} (dotted: the stated growth)")
            panel.set_xticks(ticks[::2], [f"{value:,}" for value in ticks[::2]])
            panel.minorticks_off()
        axes[0].set_ylabel("milliseconds")
        axes[0].legend(frameon=False, fontsize=7)


def _join_distinct(values: Iterable[int]) -> str:
    """Joins the distinct values with commas."""
    return ", ".join(map(str, dict.fromkeys(values)))
