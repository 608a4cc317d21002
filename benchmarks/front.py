"""BLEU against speed on a CPU, of models, precisions and searches: a table and a picture.

    transduce distil runs/teacher --source train.en --out runs/fast
    python benchmarks/front.py runs/teacher runs/fast --source test.en --reference test.de --picture front.svg

Each model translates the text in float32 and int8, greedily and with its beam. The rounds go through all rows in turn,
and the median of the sentences a second counts, so that a neighbour on the machine slows all rows.
"""

import argparse
import itertools
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import torch

from transduce.measure.scoring import scores
from transduce.translation.search_method import SearchMethod, search_method
from transduce.translation.translator import Translator


class Point(NamedTuple):
    """A model with a precision and a search, and what was measured."""

    model: str
    parameters: int
    precision: str
    search: str
    bleu: float
    sentences_per_second: float

    @property
    def row(self) -> str:
        """The row of the table."""
        cells = (self.model, f"{self.parameters / 1e6:.1f}", self.precision, self.search)
        return f"| {' | '.join(cells)} | {self.bleu:.2f} | {self.sentences_per_second:,.0f} |"


def main() -> None:
    """Measures all rows, prints the table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="model directories; the first is the teacher")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--picture", type=Path, help="the file of the picture, such as front.svg")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    sources, references = (path.read_text("utf-8").splitlines() for path in (options.source, options.reference))
    points, signature = measure(options.runs, sources, references, options.rounds)
    print("| model | million parameters | precision | search | BLEU | sentences/s |\n|---|---|---|---|---|---|")
    print("\n".join(point.row for point in points))
    print(f"\n{signature}, {torch.get_num_threads()} threads, {options.rounds} rounds")
    if options.picture:
        draw(points, signature, options.picture)


def measure(runs: list[Path], sources: list[str], references: list[str], rounds: int) -> tuple[list[Point], str]:
    """Returns a point for each model, precision and search, and the signature of BLEU."""
    translators = {
        (run, precision): Translator.load(run, precision=precision)
        for run, precision in itertools.product(runs, ("float32", "int8"))
    }
    rates: dict[tuple[Path, str, str], list[float]] = {}
    outputs: dict[tuple[Path, str, str], list[str]] = {}
    for round_number, ((run, precision), translator) in itertools.product(range(rounds + 1), translators.items()):
        for search, method in searches(translator).items():
            began = time.perf_counter()
            translated = [best[0].text for best in translator.translate_lines(sources, method)]
            seconds = time.perf_counter() - began
            outputs[run, precision, search] = translated
            if round_number:  # the first round warms up
                rates.setdefault((run, precision, search), []).append(len(sources) / seconds)
    points = []
    for (run, precision, search), measured in rates.items():
        result = scores(outputs[run, precision, search], [references], ["bleu"])["bleu"]
        module = translators[run, "float32"].models[0]
        count = sum(parameter.numel() for parameter in module.parameters())
        points.append(Point(run.name, count, precision, search, result.score, statistics.median(measured)))
    return points, result.signature


def searches(translator: Translator) -> dict[str, SearchMethod]:
    """Returns the searches of a model by name."""
    decoding = translator.decoding
    return {"greedy": search_method(decoding, greedy=True), f"beam {decoding.beam}": SearchMethod(decoding)}


def draw(points: list[Point], signature: str, path: Path) -> None:
    """Draws BLEU against sentences a second, a colour a model and a marker a precision and search."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    plt.rcParams["svg.hashsalt"] = "front"
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    colours = {name: f"C{number}" for number, name in enumerate(dict.fromkeys(point.model for point in points))}
    for point in points:
        filled = colours[point.model] if point.precision == "int8" else "none"
        shape = "o" if point.search == "greedy" else "s"
        place = point.sentences_per_second, point.bleu
        axes.plot(*place, shape, markeredgecolor=colours[point.model], markerfacecolor=filled, markersize=9)
    for name, colour in colours.items():
        axes.plot([], [], color=colour, linewidth=4, label=name)
    for shape, filled, label in (("o", "none", "greedy"), ("s", "none", "beam"), ("D", "grey", "filled: int8")):
        axes.plot([], [], shape, markeredgecolor="grey", markerfacecolor=filled, label=label)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("{x:,.0f}")
    axes.margins(0.2)
    axes.set_xlabel("sentences a second")
    axes.set_ylabel("BLEU")
    axes.set_title(signature, fontsize=7)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
