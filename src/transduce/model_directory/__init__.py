"""A model directory: a whole model, written atomically and read only when every byte is as it was written."""

from transduce.model_directory.config import Config, TrainedDirection, Weights
from transduce.model_directory.manifest import (
    CARD,
    CONFIG,
    MANIFEST,
    RECIPE,
    WEIGHTS,
    fingerprint,
    has_model,
    require_model,
    verify,
)
from transduce.model_directory.model import Model, set_word_flags, weights_of
from transduce.model_directory.writing import (
    check_new_or_empty,
    recipe_was_edited,
    write_card_section,
    write_config,
    write_model,
    write_new_model,
    write_recipe,
)

__all__ = [
    "CARD",
    "CONFIG",
    "MANIFEST",
    "RECIPE",
    "WEIGHTS",
    "Config",
    "Model",
    "TrainedDirection",
    "Weights",
    "check_new_or_empty",
    "fingerprint",
    "has_model",
    "recipe_was_edited",
    "require_model",
    "set_word_flags",
    "verify",
    "weights_of",
    "write_card_section",
    "write_config",
    "write_model",
    "write_new_model",
    "write_recipe",
]
