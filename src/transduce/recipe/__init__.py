"""Recipes: the settings of a training as one checked record; presets; the parameters and arithmetic of a model."""
