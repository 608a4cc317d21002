"""Constituency parsing (section 6.3 of the paper).

A parser translates the words of a sentence into symbols that describe its tree. The core does not import this package,
but looks up by name what it needs from it (`transduce.settings.from_satellite`): the pairs of words and symbols in a
treebank, the constraint that restricts the search to trees, and F1.
"""
