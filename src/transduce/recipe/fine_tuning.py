"""Fine-tuning: what a recipe takes from the model with which its training begins, and whether the two fit.

The settings of the model lie under the recipe in the place of a preset, so that a recipe may consist of `data` alone.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from transduce.corpus import CorpusSpec, DataSpec, Direction, is_same_language, subwords_files
from transduce.model_directory import RECIPE, Config, Model, TrainedDirection
from transduce.recipe.gentle_training import PATIENCE, gentle_training
from transduce.recipe.inherited_corpora import inherited_tests, without_languages_of
from transduce.recipe.recipe import Recipe, read_resolved_recipe, split_preset
from transduce.settings import Spec, flat, merged
from transduce.text.learning import MIN_SIZE
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import load_vocabulary

__all__ = ["StartingPoint", "check_fits"]

FREE = ("dropout", "initialisation", "balance")
"""Last parts of the keys of `model` that may differ: they change the training of a model and not its output."""

Values = dict[str, Any]


class StartingPoint(Spec):
    """The model with which a training begins: settings that lie under the recipe, and the corpora of its own recipe."""

    directory: str
    settings: dict[str, Any]  # sections of a recipe
    tests: dict[str, Any] = Field(default_factory=dict)  # its test sets
    corpora: tuple[dict[str, Any], ...] | None = None  # its training corpora; None where it has no recipe
    temperature: float | None = None  # of the mixture of its directions

    # As in the settings of the model.
    source_language: str | None = None
    target_language: str | None = None
    directions: tuple[TrainedDirection, ...] = ()
    tags: tuple[str | None, ...] = ()

    @classmethod
    def of(cls, directory: Path) -> Self:
        """Reads the settings of a model directory; one without `recipe.yaml`, as of an imported model, is enough."""
        config, path = Model.read_config(directory), directory / RECIPE
        whole = read_resolved_recipe(path) if path.exists() else None
        recipe, spec = whole.as_dictionary() if whole else None, whole.data if whole else None
        data, training = (recipe or {}).get("data", {}), (recipe or {}).get("training", {})
        languages = data if config.directions else {}  # the settings of a model have none where it has several
        return cls(
            directory=str(directory.resolve()),
            settings={
                "data": {key: data[key] for key in ("longest", "ratio") if key in data} | _data_of(config, languages),
                "subwords": recipe["subwords"] if recipe else _subwords_of(directory, config),
                "model": config.model.as_dictionary(),
                "training": gentle_training(training, config),
                "decoding": config.decoding.as_dictionary(),
            },
            # Each corpus names its languages, because the new recipe may have others.
            tests={name: spec.with_direction(test).as_dictionary() for name, test in spec.test.items()} if spec else {},
            corpora=tuple(spec.with_direction(one).as_dictionary() for one in spec.train) if spec else None,
            temperature=spec.temperature if spec else None,
            **config.model_dump(include={"source_language", "target_language", "tags"}),
            directions=config.directions,
        )

    def resolve(self, values: Mapping[str, Any], *, place: str) -> Values:
        """Returns the values of a recipe laid over the settings of the model; errors call the recipe `place`."""
        preset, model = split_preset(values, place=place)
        if preset is not None:
            model = merged(preset["model"], model)
        data = values.get("data")
        data = self._with_corpora(data, place) if isinstance(data, Mapping) else data
        written = {**values, "data": data, "model": model}
        patience = {"training": {"patience": PATIENCE if _validates(written) else None}}
        resolved: Values = merged(merged(self._settings_under(data), patience), written)
        return resolved

    def check_data(self, data: DataSpec) -> None:
        """Raises ValueError for directions or tags that are neither the model's nor those of the training corpora.

        A model of several directions needs the direction of each training corpus.
        """
        if faults := _faults_of_direction(self, data):
            raise ValueError(f"--from: that model does not fit the recipe: {'; '.join(faults)}. Leave these keys out")
        if self.directions and any(None in direction for direction in data.directions):
            raise ValueError(
                f"the model of --from has several directions, {', '.join(map(str, self.directions))}: name "
                "`data.source_language` and `data.target_language`"
            )
        directions = [Direction(one.source, one.target) for one in self.directions]
        data.check_held_out(directions, self.tags or (None,))

    def new_corpora(self, recipe: Recipe) -> tuple[CorpusSpec, ...]:
        """Returns the training corpora that the model's recipe does not name; all of them where it names all."""
        data = recipe.data.as_dictionary()
        old = [_without_weight(self._within(data, corpus)) for corpus in self.corpora or ()]
        new = tuple(
            corpus
            for corpus in recipe.data.train
            if _without_weight(self._within(data, corpus.as_dictionary())) not in old
        )
        return new or recipe.data.train

    def _settings_under(self, data: Any) -> Values:
        """Returns the settings that lie under a recipe; no language where the recipe names one of several directions'.

        Languages of a half-named direction would be those of another one.
        """
        keys = ("source_language", "target_language")
        if not self.directions or not isinstance(data, Mapping) or not any(data.get(key) for key in keys):
            return self.settings
        settings: Values = merged(self.settings, {"data": dict.fromkeys(keys)})
        return settings

    def _within(self, data: Mapping[str, Any], corpus: Mapping[str, Any]) -> Values:
        """Returns a corpus of the model's recipe within the section `data` of another recipe.

        The tags of several directions are codes; a model of one direction has no tag of a language.
        """
        return without_languages_of(data, corpus, exact=bool(self.directions))

    def _with_corpora(self, data: Mapping[str, Any], place: str) -> Values:
        """Returns `data` with the model's test sets, and with its training corpora where `keep_old` says so."""
        data = dict(data)
        train, weight = data.get("train"), data.pop("keep_old", None)
        corpora = train if isinstance(train, list) else [train]
        self._check_task(corpora[0] if corpora else None, place)
        section = merged(self._settings_under(data)["data"], data)
        if weight is not None:
            old = [self._within(section, corpus) for corpus in self._old_corpora(weight, place)]
            data = {"temperature": self.temperature, **data, "train": [*corpora, *old]}
        if "test" in data and not data["test"]:
            return {**data, "test": {}}  # the recipe wants none
        own = data.get("test", {})
        if isinstance(own, Mapping):
            tests = {name: self._within(section, test) for name, test in self.tests.items()}
            data["test"] = {**inherited_tests(tests, own, section), **own}
        return data

    def _check_task(self, corpus: Any, place: str) -> None:
        """Raises ValueError where a corpus has trees and the model translates, or the other way round."""
        parses = self.settings["data"]["linearisation"] is not None
        if isinstance(corpus, Mapping) and parses != bool({"trees", "embedded_trees"} & corpus.keys()):
            has, does = ("translations", "parses") if parses else ("trees", "translates")
            raise ValueError(f"{place}: `data.train` has {has}, and the model of --from {does}: {self.directory}")

    def _old_corpora(self, weight: Any, place: str) -> list[Values]:
        """Returns the model's training corpora with their weights multiplied by `weight`."""
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight <= 0:
            raise ValueError(
                f"{place}: `data.keep_old` is {weight}: write a weight above 0, such as 1.0, or leave it out"
            )
        if self.corpora is None:
            raise ValueError(
                f"{place}: `data.keep_old` mixes in the corpora of {self.directory}, which has no {RECIPE} to name "
                "them: list the corpora in `data.train`"
            )
        return [{**corpus, "weight": corpus["weight"] * weight} for corpus in self.corpora]


def check_fits(start: StartingPoint, recipe: Recipe) -> None:
    """Raises ValueError with the keys of `recipe` that do not fit the model with which its training begins."""
    now = recipe.as_dictionary()
    has_recipe = start.corpora is not None  # without one, subwords may be of a kind that no recipe describes
    before, after = (dict(_compared(values, subwords=has_recipe)) for values in (start.settings, now))
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    faults = [f"`{key}` is {before.get(key)} in the model and {after.get(key)} in the recipe" for key in keys]
    if faults:
        raise ValueError(
            f"--from: that model does not fit the recipe: {'; '.join(faults)}. Leave these keys, or the preset, out"
        )
    start.check_data(recipe.data)


def _faults_of_direction(start: StartingPoint, data: DataSpec) -> list[str]:
    """Returns how training corpora differ in their languages from a model of one direction."""
    languages = start.settings["data"]
    model = Direction(languages["source_language"], languages["target_language"])
    if start.directions or all(model.is_same(direction) for direction in data.directions):
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


def _validates(values: Mapping[str, Any]) -> bool:
    """Returns whether a training by the values of a recipe would validate."""
    data, training = values["data"], values.get("training")
    has_corpus = isinstance(data, Mapping) and data.get("validation") is not None
    return has_corpus and not (isinstance(training, Mapping) and training.get("validate_every", True) is None)


def _data_of(config: Config, languages: Mapping[str, Any]) -> Values:
    """Returns the languages of a model, and the linearisation of a parser; `languages` are those of its recipe."""
    keys = {"source_language", "target_language", "linearisation"}
    values = config.model_dump(mode="json", include=keys)
    return values | {key: languages[key] for key in keys if languages.get(key) is not None}


def _subwords_of(directory: Path, config: Config) -> Values:
    """Returns the section `subwords` of a model without a recipe, as far as a recipe can describe them.

    Imported models have subwords of other kinds, and may share embeddings between two files of subwords.
    """
    shared, separate = (directory / subwords_files(shared=shared)[0] for shared in (True, False))
    source = load_vocabulary(shared if shared.exists() else separate)
    is_wordpiece = isinstance(source, Subwords) and not source.has_merges
    size = max(MIN_SIZE + 256 * is_wordpiece, config.vocabulary.source)
    is_shared = shared.exists() or config.model.embeddings == "shared"
    return {"kind": "wordpiece" if is_wordpiece else "bpe", "size": size, "shared": is_shared}


def _compared(settings: Mapping[str, Any], *, subwords: bool) -> Iterator[tuple[str, Any]]:
    """Yields the keys of a recipe that must be those of the model, each with its value."""
    data = settings["data"]
    for key, value in flat(settings["model"], "model."):
        if not key.endswith(FREE):
            yield key, value
    if subwords:
        yield from ((f"subwords.{key}", settings["subwords"][key]) for key in ("kind", "size", "shared"))
    yield from flat({"linearisation": data["linearisation"]}, "data.")


def _without_weight(corpus: Mapping[str, Any]) -> Values:
    return {key: value for key, value in corpus.items() if key != "weight"}
