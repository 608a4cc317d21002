"""The embedded corpus: a synchronous English–German grammar that generates sentences, trees and word alignments."""

from transduce.embedded.realise import Example
from transduce.embedded.splits import FILES, GRAMMAR_VERSION, SPLITS, count_derivations, split, write

__all__ = ["FILES", "GRAMMAR_VERSION", "SPLITS", "Example", "count_derivations", "split", "write"]
