"""Suggests a recipe for a corpus, a machine and a number of minutes by training several candidates for a short time."""
