"""Scores of texts by the field's metrics, and tests of significance; needs no torch."""
