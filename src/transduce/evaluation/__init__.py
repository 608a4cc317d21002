"""Evaluation of a model on validation and test sets, during a run or without one."""
