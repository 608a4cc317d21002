"""Translates structured documents, and plain text whose lines have several sentences.

The core does not import this package.
"""
