"""Benchmarks: the speed of training and of translation, compared with the machine's rate of matrix multiplication."""
