"""Benchmarks: the speed of training and of translating, beside the rate of the machine's matrix products."""
