"""Evaluation of models on validation and test sets, during training or independently of it."""
