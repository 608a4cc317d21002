"""Fine-tuning: takes settings from the model that a run starts from, and checks whether the recipe fits this model.

The settings of the model replace a preset as the defaults of the recipe, so a recipe may consist of `data` only.
Training corpora, validation sets and test sets always come from the recipe.

The default settings in the section `training` are chosen so that the model changes only gradually. After a short
warm-up, the learning rate is constant, at a tenth of the learning rate at the end of the model's own training. For a
model of the paper's base size that was trained for 100,000 steps, this is 1.4e-5, close to the 2e-5 that Hugging Face's
course uses for OPUS-MT models. Fine-tuning usually takes a few passes over the data and stops early (Luong and Manning
2015; Miceli Barone et al. 2017).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from transduce.corpus.data_spec import DataSpec
from transduce.model_directory.config import Config
from transduce.model_directory.manifest import RECIPE
from transduce.model_directory.model import Model
from transduce.recipe.recipe import Recipe, read_resolved_recipe, split_preset
from transduce.settings import Spec, flat, merged
from transduce.text.directions import Direction, is_same_language
from transduce.text.subword_training import MIN_SIZE, Bpe, SubwordsSpec, WordPiece
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import load_vocabulary, subwords_files
from transduce.training.schedule import Constant, EndingSchedule
from transduce.training.training_settings import Training

FREE = ("dropout", "initialisation", "balance")
"""The last parts of the keys in `model` whose values may differ between the model and a recipe.

These values affect how a model is trained, but not its output.
"""

GENTLE = {"steps": None, "epochs": 10, "validate_every": 100, "save_every": 100, "average": None}
"""Defaults in the section `training` that are the same for all fine-tuning runs."""

PATIENCE = 10
"""The default of `training.patience` for fine-tuning, if the recipe has a validation set."""

INHERITED = ("optimiser", "label_smoothing", "label_smoothing_over", "clip", "precision")
"""The keys of `training` whose values are taken from the recipe of the model."""

GENTLE_RATE = 0.1  # relative to the learning rate at the end of the model's training

# Batches are smaller than in the model's own training, so that a small corpus gives more updates. The noise of an
# update grows with learning rate / batch size (Smith and Le 2018). Because the learning rate is a tenth of what it was,
# the noise does not increase if the model's own batches had at most ten times as many tokens.
BATCH_TOKENS = 4096

Values = dict[str, Any]


class StartingPoint(Spec):
    """The model that a run starts from. Its settings are the defaults of the recipe."""

    directory: str
    config: Config
    recipe: Recipe | None = None  # None: the model was imported
    subwords: SubwordsSpec  # for an imported model, as far as a recipe can describe them

    @classmethod
    def of(cls, directory: Path) -> Self:
        """Reads the settings of the model in `directory`.

        The directory may lack a `recipe.yaml`, because imported models do not have one.
        """
        config, path = Model.read_config(directory), directory / RECIPE
        recipe = read_resolved_recipe(path) if path.exists() else None
        subwords = recipe.subwords if recipe else _subwords_of(directory, config)
        return cls(directory=str(directory.resolve()), config=config, recipe=recipe, subwords=subwords)

    def resolve(self, values: Mapping[str, Any], *, place: str) -> Values:
        """Merges the values of a recipe over the settings of the model.

        Raises ValueError if the recipe trains on trees but the model translates, or vice versa. Error messages refer to
        the recipe as `place`.
        """
        data, training = values.get("data"), values.get("training")
        data = data if isinstance(data, Mapping) else {}
        self._check_task(data.get("train"), place)
        preset, model = split_preset(values, place=place)
        validates = data.get("validation") is not None and not (
            isinstance(training, Mapping) and training.get("validate_every", True) is None
        )
        settings = {
            "data": self.config.model_dump(mode="json", include={"source_language", "target_language", "linearisation"})
            | ({"max_length": self.recipe.data.max_length, "ratio": self.recipe.data.ratio} if self.recipe else {}),
            "subwords": self.subwords.as_dictionary(),
            "model": self.config.model.as_dictionary(),
            "training": {**self._gentle_training(), "patience": PATIENCE if validates else None},
            "decoding": self.config.decoding.as_dictionary(),
        }
        own_model = model if preset is None else merged(preset["model"], model)
        resolved: Values = merged(settings, {**values, "model": own_model})
        return resolved

    def check_data(self, data: DataSpec) -> None:
        """Raises ValueError if the directions or tags of the corpora do not fit the model.

        If the model has one direction, all training corpora must have the same one. If it has several, each training
        corpus must name its direction. The directions and tags of validation and test sets must be known to the model
        or occur in the training corpora.
        """
        if faults := self._faults_of_direction(data):
            raise ValueError(f"--from: that model does not fit the recipe: {'; '.join(faults)}. Leave these keys out")
        directions = [Direction(one.source, one.target) for one in self.config.directions]
        if directions and any(None in direction for direction in data.directions):
            raise ValueError(
                f"the model of --from has several directions, {', '.join(map(str, directions))}: name "
                "`data.source_language` and `data.target_language`"
            )
        data.check_held_out(directions, self.config.tags or (None,))

    def check_fits(self, recipe: Recipe) -> None:
        """Raises ValueError, which names the keys, if settings in `recipe` do not fit the model."""
        subwords = self.subwords if self.recipe else recipe.subwords  # imported subwords may have a kind of their own
        compared = (
            ("model", self.config.model, recipe.model),
            ("subwords", subwords, recipe.subwords),
            ("data.linearisation", self.config.linearisation, recipe.data.tree_linearisation),
        )
        faults = [
            f"`{key}` is {before} in the model and {after} in the recipe"
            for section, own, other in compared
            for key, before, after in _differences(own, other, f"{section}.")
        ]
        if faults:
            raise ValueError(
                f"--from: that model does not fit the recipe: {'; '.join(faults)}. Leave these keys, or the preset, out"
            )
        self.check_data(recipe.data)

    def _check_task(self, train: Any, place: str) -> None:
        """Raises ValueError if the first training corpus consists of trees but the model translates, or vice versa."""
        corpus = train[0] if isinstance(train, list) and train else train
        parses = self.config.linearisation is not None
        if isinstance(corpus, Mapping) and parses != bool({"trees", "embedded_trees"} & corpus.keys()):
            has, does = ("translations", "parses") if parses else ("trees", "translates")
            raise ValueError(f"{place}: `data.train` has {has}, and the model of --from {does}: {self.directory}")

    def _faults_of_direction(self, data: DataSpec) -> list[str]:
        """Returns a phrase for each difference between the training languages and the languages of the model.

        Only single-direction models are compared; the list is empty if the model has several directions.
        """
        model = Direction(self.config.source_language, self.config.target_language)
        if self.config.directions or all(model.is_same(direction) for direction in data.directions):
            return []
        own = Direction(data.source_language, data.target_language)
        keys = zip(("source_language", "target_language"), model, own, strict=True)
        faults = [
            f"`data.{key}` is {before} in the model and {after} in the recipe"
            for key, before, after in keys
            if not is_same_language(before, after)
        ]
        directions = ", ".join(map(str, data.directions))
        return faults or [f"`data.train` translates {directions}, and the model {model} alone"]

    def _gentle_training(self) -> Values:
        """Returns the section `training` for fine-tuning, except for `patience`, which depends on the recipe."""
        before = self.recipe.training if self.recipe else Training()
        values = before.as_dictionary()
        batch_tokens = min(before.max_batch_tokens, BATCH_TOKENS)
        measure = "bleu" if self.config.linearisation is None else "f1"
        return {
            **Training().as_dictionary(),
            **{key: values[key] for key in INHERITED},
            **GENTLE,
            # If the model's recipe names a program, it is not used, because a model from elsewhere must not be able to
            # start a program here.
            "validate_by": before.validate_by if self.recipe and isinstance(before.validate_by, str) else measure,
            "batch_tokens": batch_tokens,
            "micro_batches": before.micro_batches if batch_tokens == before.max_batch_tokens else "auto",
            "schedule": Constant(peak=self._gentle_rate(before)).as_dictionary(),
        }

    def _gentle_rate(self, before: Training) -> float:
        """Returns the learning rate for fine-tuning, rounded to two significant digits.

        It is a tenth of the learning rate at the step from which the model's weights were taken. If the learning rate
        of the model decayed to zero, it is a tenth of half its peak instead. If the model itself was fine-tuned, its
        learning rate is kept. An imported model is treated as if it had been trained with the default settings.
        """
        if isinstance(before.schedule, Constant):
            return before.schedule.peak
        if isinstance(before.schedule, EndingSchedule):
            return float(f"{GENTLE_RATE * before.schedule.peak / 2:.2g}")
        step = self.config.weights.steps[-1] if self.recipe and self.config.weights.steps else before.steps
        return float(f"{GENTLE_RATE * before.schedule.rate(max(step or 1, 1), self.config.model.d_model):.2g}")


def _differences(own: Spec | None, other: Spec | None, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    """Yields each key whose value differs between two specs, with both values.

    The value of a missing key is None. Keys that may differ (see `FREE`) are left out.
    """
    before, after = (dict(flat(spec.as_dictionary(), prefix)) if spec else {} for spec in (own, other))
    for key in {**before, **after}:
        if before.get(key) != after.get(key) and not key.endswith(FREE):
            yield key, before.get(key), after.get(key)


def _subwords_of(directory: Path, config: Config) -> Bpe | WordPiece:
    """Returns the section `subwords` for a model without a recipe, as far as a recipe can describe its subwords.

    Imported models may have other kinds of subwords, and may share embeddings although they have two subword files.
    """
    shared, separate = (directory / subwords_files(shared=shared)[0] for shared in (True, False))
    source = load_vocabulary(shared if shared.exists() else separate)
    is_shared = shared.exists() or config.model.embeddings == "shared"
    normalise = isinstance(source, Subwords) and source.side is not None
    if isinstance(source, Subwords) and not source.has_merges:
        return WordPiece(size=max(MIN_SIZE + 256, config.vocabulary.source), shared=is_shared, normalise=normalise)
    return Bpe(size=max(MIN_SIZE, config.vocabulary.source), shared=is_shared, normalise=normalise)
