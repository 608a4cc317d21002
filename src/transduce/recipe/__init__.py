"""Recipes: everything that a training is told, as one checked record; presets; and what a model is made of."""

from transduce.recipe.recipe import LARGEST, Recipe, dump, expanded, from_values, load, read_yaml, wherever

__all__ = ["LARGEST", "Recipe", "dump", "expanded", "from_values", "load", "read_yaml", "wherever"]
