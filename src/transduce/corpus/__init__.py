"""The corpora of a training: readers, checks, the token store, and the planning of batches."""

from transduce.corpus.checks import Fault, Report, name_of
from transduce.corpus.corpus_inspection import CorpusInspection, FaultExample, inspect_corpus, read_held_out
from transduce.corpus.data import DataSpec
from transduce.corpus.entries import (
    PATHS,
    CorpusSpec,
    Embedded,
    EmbeddedTrees,
    Files,
    Hub,
    ParallelCorpus,
    Tmx,
    Trees,
    Tsv,
    files_of,
    is_folder,
)
from transduce.corpus.learning import check_tags, tag_ids
from transduce.corpus.mixture import pairs_of_directions
from transduce.corpus.parallel_text import ParallelText, read_parallel_text
from transduce.corpus.planner import MicroBatch, PlannedStep, Planner, Position, micro_batches_per_step
from transduce.corpus.readers import (
    check_files,
    read_byte_lines,
    read_byte_pairs,
    read_gold_treebank,
    read_pairs,
    read_treebank,
)
from transduce.corpus.splitting import PARTS, CorpusSplit, near_duplicate_groups, split_groups
from transduce.corpus.store import PreparedCorpus, earlier_description, open_store, prepare, verify_store
from transduce.corpus.subword_dropout import EpochWriteError
from transduce.corpus.token_store import CorpusPart, TokenStore

__all__ = [
    "PARTS",
    "PATHS",
    "CorpusInspection",
    "CorpusPart",
    "CorpusSpec",
    "CorpusSplit",
    "DataSpec",
    "Embedded",
    "EmbeddedTrees",
    "EpochWriteError",
    "Fault",
    "FaultExample",
    "Files",
    "Hub",
    "MicroBatch",
    "ParallelCorpus",
    "ParallelText",
    "PlannedStep",
    "Planner",
    "Position",
    "PreparedCorpus",
    "Report",
    "Tmx",
    "TokenStore",
    "Trees",
    "Tsv",
    "check_files",
    "check_tags",
    "earlier_description",
    "files_of",
    "inspect_corpus",
    "is_folder",
    "micro_batches_per_step",
    "name_of",
    "near_duplicate_groups",
    "open_store",
    "pairs_of_directions",
    "prepare",
    "read_byte_lines",
    "read_byte_pairs",
    "read_gold_treebank",
    "read_held_out",
    "read_pairs",
    "read_parallel_text",
    "read_treebank",
    "split_groups",
    "tag_ids",
    "verify_store",
]
