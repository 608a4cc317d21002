"""From a training to a model directory: publishing weights, and averaging the checkpoints of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from transduce.measure import Score
from transduce.model import Vocabulary
from transduce.model_directory import CARD, RECIPE, Config, Model, Weights, write_model
from transduce.recipe import Recipe, dump, read_resolved_recipe
from transduce.settings import merged, validated
from transduce.text.subwords import Subwords
from transduce.trainer.checkpoints import Checkpoints
from transduce.trainer.validation import ValidationResult
from transduce.training import average_weights

__all__ = ["ModelPublisher", "average", "publish"]


def publish(
    out: Path,
    recipe: Recipe,
    config: Config,
    weights: Mapping[str, Tensor],
    subwords: tuple[Subwords, Subwords],
    bleu: Score | None,
) -> None:
    """Writes the model directory `out`; `bleu` is what these weights reached in validation."""
    write_model(out, config, weights, subwords, {RECIPE: dump(recipe), CARD: model_card(recipe, config, bleu)})


class ModelPublisher:
    """Writes the model directory of one run, again and again."""

    def __init__(self, recipe: Recipe, out: Path, vocabulary: Vocabulary, subwords: tuple[Subwords, Subwords]) -> None:
        self._recipe, self._out, self._vocabulary, self._subwords = recipe, out, vocabulary, subwords

    def __call__(self, which: Weights, weights: Mapping[str, Tensor], found: ValidationResult | None) -> None:
        """With these weights, of which a validation has `found` so much."""
        recipe = self._recipe
        config = Config(
            model=recipe.model,
            vocabulary=self._vocabulary,
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
            decoding=recipe.decoding,
            weights=which,
        )
        publish(self._out, recipe, config, weights, self._subwords, found.bleu if found else None)

    def read(self) -> Weights:
        """Which weights the directory holds; a `ValueError` where there is no model, or not a whole one."""
        return Model.read(self._out).config.weights

    def try_to_read(self) -> Weights | None:
        """Returns what `read` returns, but None where there is no model, or not a whole one."""
        try:
            return self.read()
        except ValueError:
            return None


def average(run: Path, out: Path, last: int | None, chosen: Sequence[int] = ()) -> Weights:
    """Writes `out` as the model of `run` with the mean of its last checkpoints, or of those of the chosen steps.

    A `ValueError` where there are not so many, or where `out` is not empty: nothing is written over.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is not empty: choose another directory for --out")
    model = Model.read(run)
    checkpoints = Checkpoints(run / "training")
    there = checkpoints.steps()
    steps = there[-last:] if last else sorted(set(chosen))
    missing = sorted(set(steps) - set(there))
    if missing or len(steps) < (last or 1):
        wanted = f"no checkpoint of step {', '.join(map(str, missing))}" if missing else f"no {last} checkpoints"
        raise ValueError(
            f"{run} has {wanted}; it has {', '.join(map(str, there)) or 'none'} (`training.keep` says how many stay)"
        )
    which = Weights(kind="averaged", steps=tuple(steps))
    config = validated(Config, merged(model.config.as_dictionary(), {"weights": which.as_dictionary()}), place=str(run))
    recipe = read_resolved_recipe(run / RECIPE)
    mean = average_weights(checkpoints.weights(step) for step in steps)
    publish(out, recipe, config, mean, (model.source, model.target), None)
    return which


def model_card(recipe: Recipe, config: Config, bleu: Score | None) -> str:
    """A README that a model directory is born with, and that its owner is free to edit."""
    source, target = config.source_language or "source", config.target_language or "target"
    steps = ", ".join(f"{step:,}" for step in config.weights.steps)
    name = type(config.model).__name__
    measured = f"{bleu.score:.2f} ({bleu.signature})" if bleu else "not measured"
    return f"""# {source} → {target}

A {name} trained with `transduce`, {config.model.d_model} features wide, with {config.vocabulary.source:,} source and
{config.vocabulary.target:,} target subwords.

| | |
|---|---|
| weights | {config.weights.kind}, of step {steps} |
| trained in | steps of at most {recipe.training.batch_tokens:,} positions a side |
| validation BLEU | {measured} |
| recipe | `recipe.yaml`, everything resolved |

    transduce translate DIRECTORY input.txt
    transduce draw DIRECTORY "a sentence" --out attention.html

This page is free to edit: say here what the model is for, what it was trained on, and what it must not be used for.
"""
