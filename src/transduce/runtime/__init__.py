"""This package deals with the machine: devices, threads and memory, distributed processes, signals and progress."""
