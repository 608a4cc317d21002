"""Recipes: the settings of a training as one checked record; presets; the parameters and arithmetic of a model."""

from transduce.recipe.recipe import (
    Recipe,
    dump,
    from_values,
    load,
    merge_preset,
    read_resolved_recipe,
    read_values,
    without_training_paths,
)
from transduce.recipe.recipe_values import LARGEST, read_yaml

__all__ = [
    "LARGEST",
    "Recipe",
    "dump",
    "from_values",
    "load",
    "merge_preset",
    "read_resolved_recipe",
    "read_values",
    "read_yaml",
    "without_training_paths",
]
