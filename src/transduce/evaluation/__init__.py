"""Evaluation of a model on validation and test sets, during a training or without any."""
