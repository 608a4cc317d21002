"""The corpus we carry: a synchronous English–German grammar that gives sentences, trees and word alignments."""

from transduce.embedded.files import write
from transduce.embedded.realise import Example
from transduce.embedded.splits import GRAMMAR, SPLITS, count_derivations, split

__all__ = ["GRAMMAR", "SPLITS", "Example", "count_derivations", "split", "write"]
