"""Checks of parallel text: pairs of lines in, the faults of each pair out; reads no files."""

from transduce.inspection.held_out import HeldOutText, text_key
from transduce.inspection.inspector import Inspection, Numbers, PairInspector, first_numbers
from transduce.inspection.languages import PairLanguages, load_language_identifier
from transduce.inspection.line_checks import LINE_CHECKS, NEEDS_LANGUAGES, Check

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
