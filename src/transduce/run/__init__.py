"""This package carries out complete training runs.

A run prepares the data, trains and validates the model, saves checkpoints, selects the final weights and publishes them
in a model directory.
"""
