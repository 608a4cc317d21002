"""Recipes: the settings of a training as one checked record; presets; the parameters and arithmetic of a model."""

from transduce.recipe.recipe import (
    LARGEST,
    Recipe,
    dump,
    expanded,
    from_values,
    load,
    read_resolved_recipe,
    read_yaml,
    wherever,
)

__all__ = [
    "LARGEST",
    "Recipe",
    "dump",
    "expanded",
    "from_values",
    "load",
    "read_resolved_recipe",
    "read_yaml",
    "wherever",
]
