"""Publishing weights as a model directory, and averaging the checkpoints of a run."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from transduce.corpus import PreparedCorpus, Report
from transduce.model import Vocabulary
from transduce.model_directory import (
    CARD,
    RECIPE,
    Config,
    Model,
    Weights,
    check_new_or_empty,
    write_model,
    write_new_model,
)
from transduce.recipe import Recipe, dump, read_resolved_recipe
from transduce.recipe.fine_tuning import StartingPoint
from transduce.settings import merged, validated
from transduce.trainer.checkpoints import Checkpoints
from transduce.trainer.trained_languages import TrainedLanguages
from transduce.trainer.validation import ValidationResult, ValidationScore
from transduce.training import average_weights

__all__ = ["ModelPublisher", "average"]


class ModelPublisher:
    """Writes the model directory of one run, each time with other weights."""

    def __init__(self, recipe: Recipe, out: Path, prepared: PreparedCorpus) -> None:
        self._recipe, self._out, self._subwords = recipe, out, (prepared.source, prepared.target)
        self._report = prepared.report
        self._vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
        self._languages = TrainedLanguages.of(recipe.data, prepared.train.parts)
        with contextlib.suppress(ValueError):  # no model yet, or a damaged one
            self.inherit_languages(Model.read_config(out))

    def inherit_languages(self, config: Config | StartingPoint) -> None:
        """Adds the languages of another model, such as that of `--from`."""
        self._languages = self._languages.inherit(config)

    def publish(self, selected: Weights, weights: Mapping[str, Tensor], result: ValidationResult | None) -> None:
        """Writes the model directory with the selected weights and the result of their validation."""
        recipe = self._recipe
        config = Config(
            model=recipe.model,
            vocabulary=self._vocabulary,
            **self._languages.as_fields(),
            linearisation=recipe.data.tree_linearisation,
            decoding=recipe.decoding,
            weights=selected,
        )
        card = model_card(recipe, config, result.score if result else None, self._report)
        write_model(self._out, config, weights, self._subwords, {RECIPE: dump(recipe), CARD: card})

    def read(self) -> Weights:
        """Returns which weights the directory has; raises ValueError where it has no model or a damaged one."""
        return Model.read(self._out).config.weights

    def read_or_none(self) -> Weights | None:
        """Returns which weights the directory has; None where it has no model or a damaged one."""
        try:
            return self.read()
        except ValueError:
            return None


def average(run: Path, out: Path, last: int | None, steps: Sequence[int] = ()) -> Weights:
    """Writes the model directory `out` with the mean of the `last` checkpoints of `run`, or of those of `steps`.

    Raises ValueError where a checkpoint is missing, or where `out` is not empty.
    """
    check_new_or_empty(out)
    model = Model.read(run)
    checkpoints = Checkpoints(run / "training")
    saved = checkpoints.steps()
    steps = saved[-last:] if last else sorted(set(steps))
    missing = sorted(set(steps) - set(saved))
    if missing or len(steps) < (last or 1):
        lacking = f"no checkpoint of step {', '.join(map(str, missing))}" if missing else f"no {last} checkpoints"
        raise ValueError(
            f"{run} has {lacking}; it has {', '.join(map(str, saved)) or 'none'} (`training.keep` says how many stay)"
        )
    averaged = Weights(kind="averaged", steps=tuple(steps))
    values = merged(model.config.as_dictionary(), {"weights": averaged.as_dictionary()})
    config = validated(Config, values, place=str(run))
    recipe = read_resolved_recipe(run / RECIPE)
    mean = average_weights(checkpoints.weights(step) for step in steps)
    texts = {RECIPE: dump(recipe), CARD: model_card(recipe, config, None, None)}
    write_new_model(out, config, mean, (model.source, model.target), texts)
    return averaged


def model_card(recipe: Recipe, config: Config, score: ValidationScore | None, report: Report | None) -> str:
    """Returns the first README of a model directory, which its owner may edit.

    `score` is the validation score of the weights, `report` that of the training pairs.
    """
    source, target = config.source_language or "source", config.target_language or "target"
    to = f" --to {config.directions[0].target}" if config.directions else ""
    steps = ", ".join(f"{step:,}" for step in config.weights.steps)
    name = type(config.model).__name__
    measured = f"{score.label} {score.score:.2f} ({score.signature})" if score else "not measured"
    commands = [f"translate DIRECTORY{to}", f'DIRECTORY "a sentence"{to} --out attention.html']
    title = ", ".join(f"{pair.source} → {pair.target}" for pair in config.directions) or f"{source} → {target}"
    if config.linearisation:
        title, commands = f"Parser of {source}", ["parse DIRECTORY", 'DIRECTORY "a sentence" --tree --out tree.html']
    unit = "symbols" if config.linearisation else "target subwords"
    return f"""# {title}

A {name} trained with `transduce`, {config.model.d_model} features wide, with {config.vocabulary.source:,} source
subwords and {config.vocabulary.target:,} {unit}.

| | |
|---|---|
| weights | {config.weights.kind}, of step {steps} |
| trained in | steps of at most {recipe.training.max_batch_tokens:,} positions a side |
| validation | {measured} |
{_rows_of_card(config, report)}| recipe | `recipe.yaml`, everything resolved |

    transduce {commands[0]} input.txt
    transduce draw {commands[1]}

This page is free to edit: say here what the model is for, what it was trained on, and what it must not be used for.
"""


def _rows_of_card(config: Config, report: Report | None) -> str:
    """Returns rows of a table: the training pairs, the directions of a model and the tags of its corpora."""
    counts = "; ".join(report.counts()) if report else ""
    pairs = ", ".join(f"{pair} ({pair.pairs:,} pairs)" for pair in config.directions)
    tags = ", ".join(tag or "none" for tag in config.tags)
    rows = ("training pairs", counts), ("directions", pairs), ("tags", tags)
    return "".join(f"| {name} | {value} |\n" for name, value in rows if value)
