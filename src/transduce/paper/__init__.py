"""Reproduces the experiments of the paper, with one module for each table or argument.

Each module runs its experiment, which returns records, and turns these records into text and plots.
"""
