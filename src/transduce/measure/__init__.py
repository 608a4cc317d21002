"""Scores of texts and trees by the field's metrics, and tests of significance; needs no torch."""
