"""Constituency parsing (section 6.3): a satellite, which nothing of the core imports.

Parsing is translating into symbols that write a tree. The core asks for what it needs by name
(`transduce.settings.from_satellite`): pairs of words and symbols from a corpus of trees, the constraint of the search
to trees, and F1.
"""
