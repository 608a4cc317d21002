"""Checks the decoding settings of a recipe, and changes the decoding settings of a finished model."""

from collections.abc import Iterable
from pathlib import Path

from transduce.model_directory.config import Config
from transduce.model_directory.manifest import require_model
from transduce.model_directory.model import Model
from transduce.model_directory.writing import write_config
from transduce.recipe.recipe_values import parse_change
from transduce.search.beam import Decoding
from transduce.settings import merged, validated
from transduce.storage.locks import exclusive_lock
from transduce.text.tree_linearisation import MIN_EXTRA_LENGTH


def check_decoding(decoding: Decoding, *, is_parser: bool) -> None:
    """Raises ValueError if a parser has decoding settings that do not work for trees.

    `no_repeat_ngram` must be unset, because trees repeat their symbols. `extra_length` must be at least
    `MIN_EXTRA_LENGTH`.
    """
    if is_parser and decoding.no_repeat_ngram is not None:
        raise ValueError("`decoding.no_repeat_ngram` is for translations: trees repeat their symbols; leave it out")
    if is_parser and decoding.extra_length < MIN_EXTRA_LENGTH:
        raise ValueError(f"`decoding.extra_length` of a parser is at least {MIN_EXTRA_LENGTH}, 300 in the paper")


def change_decoding(run: Path, changes: Iterable[str]) -> Decoding:
    """Changes the decoding settings of the model in `run`, and returns all of its decoding settings.

    Each change is a string such as `decoding.beam=5`. Raises ValueError if a change belongs to another section or is
    out of range, if the model is missing or damaged, or if a run is active in `run`.
    """
    changes = list(changes)
    if not changes:
        return Model.read_config(run).decoding
    require_model(run)
    with exclusive_lock(run, "training"):
        config = Model.read_config(run)
        changed = _changed(config, changes)
        if changed != config:
            write_config(run, changed)
    return changed.decoding


def _changed(config: Config, changes: Iterable[str]) -> Config:
    """Returns the settings of a model after applying `changes` to its decoding settings."""
    values = config.as_dictionary()
    for change in changes:
        parsed = parse_change(change)
        if [*parsed] != ["decoding"] or not isinstance(parsed["decoding"], dict):
            raise ValueError(
                f"--set {change}: only the settings of decoding change in a finished model; write decoding.KEY=VALUE, "
                f"where KEY is one of {', '.join(Decoding.model_fields)}"
            )
        values = merged(values, parsed)
    changed = validated(Config, values, place="--set")
    check_decoding(changed.decoding, is_parser=changed.linearisation is not None)
    return changed
