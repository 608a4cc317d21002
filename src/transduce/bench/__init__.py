"""Benchmarks of training and translation speed, which also report the machine's rate of matrix multiplication."""
