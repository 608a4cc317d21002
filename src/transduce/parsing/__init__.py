"""Constituency parsing (section 6.3 of the paper): a satellite that the core does not import.

Parsing is translation into symbols that write a tree. The core looks up what it needs by name
(`transduce.settings.from_satellite`): pairs of words and symbols from a corpus of trees, the constraint that limits the
search to trees, and F1.
"""
