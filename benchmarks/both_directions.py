"""One model of both directions beside two models of one direction each, in the same time.

`python both_directions.py --minutes 120 --seeds 1 2 3 --out runs/compare` trains
`recipes/multi30k-both-directions.yaml` for the whole time and each direction alone for half of it, and prints a table
of BLEU on the test sets. The same command resumes, and only measures what is trained.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.recipe.recipe import Recipe

RECIPE = Path(__file__).parents[1] / "recipes" / "multi30k-both-directions.yaml"


def transduce(*arguments: object) -> str:
    """Runs a command; its standard error is shown, its standard output returned."""
    command = [sys.executable, "-m", "transduce", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def changes_for(recipe: Recipe, direction: str) -> dict[str, Any]:
    """The changes to `recipe` that leave one direction of its corpora."""
    data = recipe.data

    def chosen(corpora: tuple[CorpusSpec, ...]) -> Any:
        (corpus,) = [corpus for corpus in corpora if str(data.direction_of(corpus)) == direction]
        return corpus.as_dictionary()

    tests = {name: corpus for name, corpus in data.test.items() if name.endswith(direction)}
    return {
        "data.train": chosen(data.train),
        "data.validation": chosen(data.validations),
        "data.test": {name: corpus.as_dictionary() for name, corpus in tests.items()},
    }


def train(out: Path, minutes: float, changes: dict[str, Any], options: list[str]) -> None:
    """Trains the recipe with changes and further options of `transduce train`, or resumes."""
    settings = {**changes, "training.minutes": minutes}
    changed = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    transduce("train", RECIPE, "--out", out, *changed, *options)


def bleu(run: Path, test: str, device: str) -> float:
    """BLEU of a run on one of its test sets."""
    metric = "bleu-lowercased-tokenised"
    report = transduce("evaluate", run, "--test", test, "--metric", metric, "--json", "--device", device)
    return float(json.loads(report)[metric]["score"])


def main() -> None:
    """Trains, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", help="of a training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the recipe")
    options = parser.parse_args()
    shared = ["--device", options.device, *(word for change in options.set for word in ("--set", change))]
    shared += ["--threads", options.threads] if options.threads else []
    recipe = Recipe.load(RECIPE)
    directions = [str(direction) for direction in recipe.data.directions]
    scores: dict[tuple[str, str], list[float]] = {}
    for seed in options.seeds:
        of_seed = {"training.seed": seed}
        train(options.out / f"both-{seed}", options.minutes, of_seed, shared)
        for direction in directions:
            changes = changes_for(recipe, direction)
            train(options.out / f"{direction}-{seed}", options.minutes / 2, {**changes, **of_seed}, shared)
            for test in changes["data.test"]:
                for model in ("both", direction):
                    score = bleu(options.out / f"{model}-{seed}", test, options.device)
                    scores.setdefault((test, "both" if model == "both" else "alone"), []).append(score)
    print("| test set | model | BLEU, mean | of seeds |\n|---|---|---|---|")
    for (test, model), values in scores.items():
        shown = ", ".join(f"{value:.2f}" for value in values)
        print(f"| {test} | {model} | {statistics.fmean(values):.2f} | {shown} |")


if __name__ == "__main__":
    main()
