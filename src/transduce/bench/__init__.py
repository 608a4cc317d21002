"""Benchmarks: the speed of training and of translating, beside the rate of the machine's matrix products."""

from transduce.bench.training import bench_training
from transduce.bench.translating import bench_translating

__all__ = ["bench_training", "bench_translating"]
