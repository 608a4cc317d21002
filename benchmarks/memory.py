"""Measures resident memory over time: `python benchmarks/memory.py train|translate [--draw FILE.svg]`.

`train` trains a recipe, validations included, and measures every few steps. Without `--recipe` the recipe is a small
one on the embedded corpus, in bfloat16: oneDNN, which computes its products, keeps a compiled product for each shape.
`translate` translates a text, over and over up to `--lines` lines, with the model `--run`. Prints a table; `--draw`
draws it.
"""

import argparse
import itertools
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import transduce
from transduce.embedded import split

RECIPE = """
data:
  train: {embedded: train}
  validation: {embedded: validation}
subwords: {kind: bpe, size: 1000}
model: {preset: tiny}
training:
  batch_tokens: 4096
  precision: bfloat16
  validate_every: 100
  save_every: 100
  log_every: 100
decoding: {beam: 4}
"""


class Sample(NamedTuple):
    """Resident memory of this process after `done` steps or lines."""

    done: int
    megabytes: float


def main() -> None:
    """Measures, prints the table and draws it."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("transduce").setLevel(logging.INFO)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["train", "translate"])
    parser.add_argument("--recipe", type=Path, help="train: the recipe; a small one on the embedded corpus without it")
    parser.add_argument("--set", action="append", default=[], help="train: KEY=VALUE of the recipe")
    parser.add_argument("--steps", type=int, default=1000, help="train: steps")
    parser.add_argument("--run", type=Path, help="translate: the model directory")
    parser.add_argument("--text", type=Path, help="translate: lines of source text; the embedded corpus without it")
    parser.add_argument("--lines", type=int, default=100_000, help="translate: lines")
    parser.add_argument("--precision", default="float32", help="translate: float32 or int8")
    parser.add_argument("--samples", type=int, default=20, help="rows of the table")
    parser.add_argument("--draw", type=Path, help="an SVG to draw")
    arguments = parser.parse_args()
    samples = list(train(arguments) if arguments.work == "train" else translate(arguments))
    unit = "steps" if arguments.work == "train" else "lines"
    print(table(samples, unit))
    if arguments.draw:
        draw(samples, unit, arguments.draw)


def train(arguments: argparse.Namespace) -> Iterator[Sample]:
    """Trains, and yields the resident memory `--samples` times, at equal numbers of steps."""
    every = max(1, arguments.steps // arguments.samples)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "recipe.yaml").write_text(RECIPE, "utf-8")
        changes = [*arguments.set, f"training.steps={arguments.steps}"]
        recipe = transduce.Recipe.load(arguments.recipe or folder / "recipe.yaml", changes)
        for record in transduce.train(recipe, folder / "run", device="cpu"):
            if record.step % every == 0:
                yield Sample(record.step, resident_megabytes())


def translate(arguments: argparse.Namespace) -> Iterator[Sample]:
    """Translates, and yields the resident memory `--samples` times, at equal numbers of lines."""
    every = max(1, arguments.lines // arguments.samples)
    text = arguments.text.read_text("utf-8").split("\n") if arguments.text else [pair.source for pair in split("test")]
    translator = transduce.Translator.load(arguments.run, precision=arguments.precision, device="cpu")
    lines = itertools.islice(itertools.cycle(text), arguments.lines)
    for done, _ in enumerate(translator.stream(lines), 1):
        if done % every == 0:
            yield Sample(done, resident_megabytes())


def resident_megabytes() -> float:
    """Returns the resident memory of this process, in units of 10⁶ bytes; Linux only."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def table(samples: list[Sample], unit: str) -> str:
    """Returns the samples as a Markdown table."""
    rows = (f"| {sample.done:,} | {sample.megabytes:,.0f} |" for sample in samples)
    return "\n".join([f"| {unit} | resident memory, MB |", "|---|---|", *rows])


def draw(samples: list[Sample], unit: str, out: Path) -> None:
    """Draws memory over steps or lines."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "memory"
    figure, panel = pyplot.subplots(figsize=(5, 3), layout="constrained")
    panel.plot([sample.done for sample in samples], [sample.megabytes for sample in samples], color="#1f5f8b")
    greatest = max(sample.megabytes for sample in samples)
    panel.set(xlabel=unit, ylabel="resident memory, MB", xlim=(0, None), ylim=(0, 1.2 * greatest))
    panel.grid(alpha=0.3)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    main()
