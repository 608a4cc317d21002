"""Checks of parallel text: pairs of lines in, the faults of each pair out; reads no files."""

from transduce.inspection.check import LINE_CHECKS, NEEDS_LANGUAGES, Check
from transduce.inspection.held_out import HeldOutText
from transduce.inspection.inspector import Inspection, Numbers, PairInspector, first_numbers
from transduce.inspection.keys import text_key
from transduce.inspection.languages import PairLanguages, load_language_identifier

__all__ = [
    "LINE_CHECKS",
    "NEEDS_LANGUAGES",
    "Check",
    "HeldOutText",
    "Inspection",
    "Numbers",
    "PairInspector",
    "PairLanguages",
    "first_numbers",
    "load_language_identifier",
    "text_key",
]
