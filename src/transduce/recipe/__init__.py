"""Recipes, which are validated records of all settings of a run, as well as presets and summaries of models."""
