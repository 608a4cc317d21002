"""Recipes: the settings of a training as one checked record; presets; the parameters and arithmetic of a model."""

from transduce.recipe.recipe import (
    LARGEST,
    Recipe,
    dump,
    from_values,
    load,
    merge_preset,
    read_resolved_recipe,
    read_values,
    read_yaml,
    without_training_paths,
)

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
