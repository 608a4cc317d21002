"""Table 1: arithmetic counted, time measured, exponents fitted, sequential operations and paths traced."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from transduce.model.feed_forward import FeedForward
from transduce.paper.counting import counted, longest_chain
from transduce.paper.layers import KINDS, Kind, Shape, path

# What each variable goes through, an octave a step, and what stands still: wide and many enough that a product takes
# longer than its call. A recurrence multiplies one vector a sentence at a time, so that its width needs many sentences.
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
WIDTHS = [64, 128, 256, 512, 1024]  # at which self-attention and recurrence cross
LEAST = 0.2  # seconds that a time is taken for, however short one call is
OCTAVES = 3  # the largest, over which time's exponent is fitted
PATHS = {"n": [17, 33, 65, 129], "k": [3, 5, 9], "r": [1, 2, 4]}


class Fitted(NamedTuple):
    """An exponent as it is stated, as counting gives it, and as time does."""

    variable: str
    stated: float
    counted: float
    timed: float
    points: list[tuple[int, float, float]]  # value, operations, milliseconds


class LayerCosts(NamedTuple):
    """A kind of layer: what the paper states and what was found."""

    kind: Kind
    fitted: list[Fitted]
    sequential: list[tuple[int, int]]  # n, products of matrices that wait for each other
    paths: list[tuple[Shape, int | None]]


def table1(device: torch.device, repeats: int, say: Callable[[str], None]) -> list[LayerCosts]:
    """Every kind of layer."""
    rows = []
    for kind in KINDS:
        say(kind.name)
        fitted = [_fitted(kind, variable, device, repeats) for variable in kind.powers]
        sequential = [(n, _waits(kind, n)) for n in (8, 16, 32)]
        rows.append(LayerCosts(kind, fitted, sequential, list(_paths(kind)) if kind.path else []))
    return rows


def operations(module: nn.Module, shape: Shape) -> int:
    """Floating-point operations of one sentence, without memory."""
    with torch.device("meta"):
        return counted(lambda: module.to("meta")(torch.empty(1, shape.n, shape.d)))


def milliseconds(module: nn.Module, shape: Shape, device: torch.device, repeats: int, sentences: int = 1) -> float:
    """Of so many sentences, forward: the median of `repeats` and more after one to warm up."""
    states = torch.randn(sentences, shape.n, shape.d, device=device)
    times: list[float] = []
    module = module.to(device).eval()
    with torch.inference_mode():
        while len(times) <= repeats or sum(times) < 1000 * LEAST:
            began = time.perf_counter()
            module(states)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[1:])


def exponent(values: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of cost against value, both logarithmic."""
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def exponent_below(fitted: Fitted, most: int) -> float:
    """Time's exponent over the `OCTAVES` largest octaves of a grid that ends at `most`."""
    points = [(value, took) for value, _, took in fitted.points if value <= most][-OCTAVES - 1 :]
    return exponent(*zip(*points, strict=True))


def _fitted(kind: Kind, variable: str, device: torch.device, repeats: int) -> Fitted:
    """Counts and times one variable's grid, while the others stand still."""
    points = []
    for value in GRID[variable]:
        shape = MIDDLE[variable]._replace(**{variable: value})
        done = operations(kind.build(shape), shape)
        took = milliseconds(kind.build(shape), shape, device, repeats, SENTENCES[variable])
        points.append((value, float(done), took))
    values, counts, times = zip(*points, strict=True)
    last = slice(-OCTAVES - 1, None)
    return Fitted(
        variable, kind.powers[variable], exponent(values, counts), exponent(values[last], times[last]), points
    )


def _waits(kind: Kind, n: int) -> int:
    """How many products of matrices wait for each other at length n."""
    module = kind.build(Shape(n, 8, 3, 2))
    return longest_chain(lambda: module(torch.randn(1, n, 8)))


def _paths(kind: Kind) -> Iterable[tuple[Shape, int | None]]:
    """The longest path at several lengths, kernels and neighbourhoods."""
    middle = Shape(n=65, d=4, k=3, r=2)
    shapes = [middle._replace(n=n) for n in PATHS["n"]]
    for variable in ("k", "r"):
        if variable in kind.powers:
            shapes += [middle._replace(**{variable: value}) for value in PATHS[variable]]
    for shape in shapes:
        yield shape, path(kind, shape)


class Crossover(NamedTuple):
    """The length from which self-attention costs more than recurrence: in operations, and in time where it does."""

    counted: float
    timed: float | None


class Claims(NamedTuple):
    """What section 4 says besides the table."""

    crossover: dict[int, Crossover]  # by width
    # (n, d) → operations of a separable convolution of k = n, by those of self-attention with its network
    separable: dict[tuple[int, int], float]
    recurrences: dict[int, float]  # k → operations of a convolution by those of a recurrence


def claims(device: torch.device, repeats: int) -> Claims:
    """The crossover of n against d, and the two equalities."""
    attention, recurrent, convolution = KINDS[0], KINDS[1], KINDS[2]
    by_feature, by_position = KINDS[4], KINDS[5]
    separable = {}
    for n, d in product((64, 256, 1024), (64, 256, 1024)):
        shape = Shape(n=n, d=d, k=n)
        with_network = operations(attention.build(shape), shape) + operations(FeedForward(d_ff=d).build(d), shape)
        apart = sum(operations(kind.build(shape), shape) for kind in (by_feature, by_position))
        separable[n, d] = apart / with_network
    shape = MIDDLE["k"]
    return Claims(
        crossover={
            d: Crossover(_counted(attention, recurrent, d), _timed(attention, recurrent, d, device, repeats))
            for d in WIDTHS
        },
        separable=separable,
        recurrences={
            k: operations(convolution.build(shape._replace(k=k)), shape) / operations(recurrent.build(shape), shape)
            for k in GRID["k"]
        },
    )


def _counted(one: Kind, other: Kind, d: int) -> float:
    """The length at which `one`, which grows by n², begins to have more operations than `other`, which grows by n."""
    shape = Shape(n=d, d=d)
    return d * operations(other.build(shape), shape) / operations(one.build(shape), shape)


def _timed(one: Kind, other: Kind, d: int, device: torch.device, repeats: int) -> float | None:
    """The length at which `one` begins to take longer than `other`, between the lengths that were timed."""
    before: tuple[int, float] | None = None
    for n in GRID["n"]:
        shape = Shape(n=n, d=d)
        times = [milliseconds(kind.build(shape), shape, device, repeats) for kind in (one, other)]
        ratio = math.log(times[0] / times[1])
        if ratio > 0:
            if before is None:
                return float(n)
            share = -before[1] / (ratio - before[1])
            return float(before[0] * (n / before[0]) ** share)
        before = (n, ratio)
    return None


def as_dictionary(rows: Sequence[LayerCosts], found: Claims) -> Mapping[str, Any]:
    """For JSON."""
    return {
        "layers": [
            {
                "layer": row.kind.name,
                "stated": row.kind.stated,
                "exponents": [fitted._asdict() for fitted in row.fitted],
                "sequential": row.sequential,
                "paths": [{**shape._asdict(), "path": length} for shape, length in row.paths],
            }
            for row in rows
        ],
        "claims": {
            **found._asdict(),
            "crossover": {d: crossover._asdict() for d, crossover in found.crossover.items()},
            "separable": [[n, d, ratio] for (n, d), ratio in found.separable.items()],
        },
    }
