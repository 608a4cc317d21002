"""Measuring speed: of training and of translating, beside the matrix products that the same machine manages."""

from transduce.bench.measured import Settings, matrix_rate, peak_memory
from transduce.bench.training import bench_training
from transduce.bench.translating import bench_translating

__all__ = ["Settings", "bench_training", "bench_translating", "matrix_rate", "peak_memory"]
