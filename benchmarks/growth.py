"""Measures how time grows with size: `python benchmarks/growth.py [--out docs/growth.svg] [--repeats 5]`.

Varies length, batch, width and depth of a middle shape, one at a time, and measures milliseconds of a training step and
of translating a batch. Prints a table and draws it. The machine should have no other work.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from transduce.model.attention import Attention
from transduce.model.cross_entropy import Smoothing
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Vocabulary
from transduce.runtime.device import keep_freed_memory
from transduce.search.beam import Decoding, beam_search
from transduce.search.stepper import SearchProblem
from transduce.training.objective import TrainingObjective
from transduce.training.optimiser import Adam, FlatAdam

MIDDLE = {"length": 32, "batch": 32, "width": 256, "depth": 4}
VALUES = {
    "length": [8, 16, 32, 64, 128, 256],
    "batch": [4, 8, 16, 32, 64, 128],
    "width": [64, 128, 256, 512, 1024],
    "depth": [1, 2, 4, 8, 12],
}
VOCABULARY = 8000

Times = dict[str, list[tuple[int, float, float]]]  # name → (value, ms of a step, ms of translating)


def main() -> None:
    """Measures all shapes, prints the table and draws it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/growth.svg"))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    keep_freed_memory()
    times: Times = {}
    for name, values in VALUES.items():
        shapes = [(value, {**MIDDLE, name: value}) for value in values]
        times[name] = [
            (value, time_training(shape, arguments.repeats), time_translating(shape, arguments.repeats))
            for value, shape in shapes
        ]
    print(table(times))
    draw(times, arguments.out)


def build_model(shape: dict[str, int]) -> torch.nn.Module:
    """Returns the Transformer of a shape, with d_k 64 and d_ff four times d_model."""
    width = shape["width"]
    attention = Attention(heads=width // 64, d_k=64, d_v=64)
    spec = Transformer(
        d_model=width,
        encoder_layers=shape["depth"],
        decoder_layers=shape["depth"],
        mixer=attention,
        cross=attention,
        feed_forward=FeedForward(d_ff=4 * width),
    )
    torch.manual_seed(1)
    return spec.build(Vocabulary(source=VOCABULARY, target=VOCABULARY))


def random_batch(shape: dict[str, int]) -> torch.Tensor:
    """Returns tokens of sentences of one length, `[batch, length]`."""
    return torch.randint(3, VOCABULARY, (shape["batch"], shape["length"]))


def time_training(shape: dict[str, int], repeats: int) -> float:
    """Returns milliseconds of one step: forward, backward, update."""
    model = build_model(shape)
    objective = TrainingObjective(model, Smoothing(epsilon=0.1)).train()  # type: ignore[arg-type]
    optimiser = FlatAdam(model, Adam())
    source, target = random_batch(shape), random_batch(shape)

    def step() -> None:
        optimiser.zero_gradient()
        objective(source, target, target).smoothed.backward()
        optimiser.update(1e-4, torch.tensor(True))

    return median_milliseconds(step, repeats)


def time_translating(shape: dict[str, int], repeats: int) -> float:
    """Returns milliseconds of beam search with beam 4, whose outputs are as long as the sources: end is banned."""
    model = build_model(shape).eval()
    source = random_batch(shape)
    bounds = torch.full((len(source),), shape["length"])
    problem = SearchProblem(source, torch.ones_like(source, dtype=torch.bool), bounds, 1, 2, (0, 1, 2))

    @torch.inference_mode()
    def search() -> None:
        beam_search(model, problem, Decoding())  # type: ignore[arg-type]

    return median_milliseconds(search, max(1, repeats // 2))


def median_milliseconds(call: Callable[[], None], repeats: int) -> float:
    """Returns the median time of a call, after one call to warm up."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[1:])


def table(times: Times) -> str:
    """Returns a Markdown table with each time and its ratio to the time of the row above."""
    lines = ["| | | step, ms | | translating, ms | |", "|---|---|---|---|---|---|"]
    for name, rows in times.items():
        before: tuple[int, float, float] | None = None
        for value, step, search in rows:
            ratios = ("", "") if before is None else (f"× {step / before[1]:.2f}", f"× {search / before[2]:.2f}")
            lines.append(f"| {name} | {value} | {step:,.1f} | {ratios[0]} | {search:,.1f} | {ratios[1]} |")
            before = (value, step, search)
    return "\n".join(lines)


def draw(times: Times, out: Path) -> None:
    """Draws a panel for each variable, both axes logarithmic, so that a slope is an exponent."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "growth"
    figure, panels = pyplot.subplots(1, 4, figsize=(12, 3.2), sharey=True, layout="constrained")
    for panel, (name, rows) in zip(panels, times.items(), strict=True):
        values = [row[0] for row in rows]
        panel.plot(values, [row[1] for row in rows], "o-", color="#1f5f8b", label="training step")
        panel.plot(values, [row[2] for row in rows], "s-", color="#c0562f", label="translating, beam 4")
        middle = values.index(MIDDLE[name])
        panel.plot(
            values, [rows[middle][1] * value / MIDDLE[name] for value in values], ":", color="grey", label="linear"
        )
        panel.set(xscale="log", yscale="log", xlabel=name, xticks=values, xticklabels=values)
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("milliseconds")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(", ".join(f"{name} {value}" for name, value in MIDDLE.items()) + " where not varied", fontsize=9)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    main()
