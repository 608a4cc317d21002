"""Recipes: the settings of a run as one checked record; presets; the parameters and arithmetic of a model."""
