"""This package reads and writes model directories.

A model directory contains everything that is needed to use a model. It is written atomically, and is read only if every
file matches its checksum in the manifest.
"""
