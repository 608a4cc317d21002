"""The corpus: read, checked, stored once as subwords, and planned into batches."""

from transduce.corpus.checks import Fault, Report
from transduce.corpus.data import DataSpec
from transduce.corpus.planner import Piece, Planned, Planner, Position, pieces_of_a_step, sentence_batches
from transduce.corpus.readers import CorpusSpec, Embedded, Files, Tsv, files_of, pairs
from transduce.corpus.store import Prepared, Store, open_store, prepare, subwords_files

__all__ = [
    "CorpusSpec",
    "DataSpec",
    "Embedded",
    "Fault",
    "Files",
    "Piece",
    "Planned",
    "Planner",
    "Position",
    "Prepared",
    "Report",
    "Store",
    "Tsv",
    "files_of",
    "open_store",
    "pairs",
    "pieces_of_a_step",
    "prepare",
    "sentence_batches",
    "subwords_files",
]
