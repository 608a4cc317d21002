"""Benchmarks: the speed of training and of translation, beside the rate of the machine's matrix products."""
