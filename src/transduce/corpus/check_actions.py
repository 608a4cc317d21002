"""What `data.checks` does with faults of the training corpora: drops pairs, or refuses a corpus.

By default, two certain mistakes are errors: a corpus whose target equals its source throughout, and a validation or
test set that the training corpora contain.
"""

import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from transduce.corpus.corpus_inspection import LEAST_PAIRS, THROUGHOUT, inspect_pairs, read_decoded, read_held_out
from transduce.corpus.corpus_kinds import CorpusSpec, Embedded, Files, ParallelCorpus
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.pair_checks import name_of
from transduce.inspection.held_out import HeldOutText
from transduce.inspection.inspector import Inspection, PairInspector, first_numbers
from transduce.inspection.languages import LEARNED, LEAST_LETTERS, PairLanguages, load_language_identifier
from transduce.inspection.line_checks import NEEDS_LANGUAGES, Check
from transduce.runtime.extras import install_command

_log = logging.getLogger("transduce")

EXCHANGED = 0.3
"""The sides of a corpus seem exchanged if they are in more than this share of its first long pairs.

The share is low because many pairs do not show their language.
"""

DroppedPairs = Mapping[int, Check]
"""Pairs that are dropped from a corpus, by number from 1, each with the first check that it fails."""


def run_checks(data: DataSpec) -> list[DroppedPairs]:
    """Returns, for each training corpus, the pairs that `data.checks` drops.

    Raises ValueError if a corpus has a fault that is refused, or if languages cannot be identified.
    """
    checks = {check: data.checks.get(check) for check in Check if _is_checked(data, check)}
    if not checks or data.tree_linearisation is not None:
        return [{} for _ in data.train]
    identify = load_language_identifier() if NEEDS_LANGUAGES & checks.keys() else None
    if identify is None and (missing := sorted(NEEDS_LANGUAGES & checks.keys())):
        raise ValueError(f"`data.checks.{missing[0]}` identifies languages: {install_command('languages')}")
    held_out = list(_held_out(data)) if Check.OVERLAP in checks else []
    if data.checks:
        _log.info("checking the corpus")
    dropped = []
    for corpus in data.train:
        languages = PairLanguages(identify, data.direction_of(corpus)) if identify else None
        inspection = inspect_pairs(corpus, checks, languages, held_out)
        _refuse(corpus, inspection, checks)
        dropped.append(_dropped(inspection, [check for check, action in checks.items() if action == "drop"]))
    # Training corpora that contain a held-out set are refused, unless the recipe says what to do with overlapping
    # pairs.
    for text in held_out if checks.get(Check.OVERLAP, "keep") is None else ():
        if text.lines >= LEAST_PAIRS and text.share > THROUGHOUT:
            raise ValueError(
                f"`data.train` has the sources of {text.contained:,} of {text.lines:,} lines of {text.name}, which "
                "shows nothing about other text then; take another set (`transduce split` makes one), drop these "
                "training pairs with `checks: {overlap: drop}` in `data`, or allow it with `checks: {overlap: keep}`"
            )
    return dropped


def warn_of_exchanged_sides(data: DataSpec) -> None:
    """Logs a warning for a corpus whose first pairs have the languages of source and target exchanged.

    Only judges corpora of some size that name both languages, and only if the extra `languages` is installed.
    """
    for corpus in data.train:
        direction = data.direction_of(corpus)
        if isinstance(corpus, Embedded) or not isinstance(corpus, ParallelCorpus) or not all(direction):
            continue
        pairs = islice(read_decoded(corpus), LEARNED)  # the first pairs may be short
        long = [(source, target) for source, target, _ in pairs if min(len(source), len(target)) >= LEAST_LETTERS]
        identify = None
        if len(long) >= LEAST_PAIRS:
            with contextlib.suppress(OSError):  # the library unpacks its model on disk; a hint must not stop a run
                identify = load_language_identifier()
        if identify is not None:
            inspector = PairInspector([Check.SWAPPED], PairLanguages(identify, direction))
            for source, target in long[:LEAST_PAIRS]:
                inspector.add(source, target)
            if inspector.finish().share(Check.SWAPPED) > EXCHANGED:
                is_files = isinstance(corpus, Files)
                remedy = "exchange its `source` and `target`" if is_files else "give it `direction: backward`"
                _log.warning(
                    f"warning: {name_of(corpus)}: the sides seem exchanged: the source should be {direction.source}, "
                    f"the target {direction.target}; {remedy} in `data.train`"
                )


def _is_checked(data: DataSpec, check: Check) -> bool:
    """Whether pairs are inspected for this fault."""
    is_default = check is Check.COPY or (check is Check.OVERLAP and (data.validations or data.test))
    return data.checks.get(check, "refuse" if is_default else "keep") != "keep"


def _held_out(data: DataSpec) -> Iterable[HeldOutText]:
    """Yields the sources of the validation and test sets; leaves out sets whose files do not exist.

    If the recipe asks for a comparison with a set that cannot be read, raises OSError or ValueError; otherwise the
    error is raised later, when the set is used.
    """
    named = [("the validation set", corpus) for corpus in data.validations]
    for name, corpus in (*named, *((f"the test set {name}", corpus) for name, corpus in data.test.items())):
        try:
            yield from read_held_out([(name, corpus)])
        except (OSError, ValueError):
            if Check.OVERLAP in data.checks:
                raise


def _refuse(corpus: CorpusSpec, inspection: Inspection, checks: Mapping[Check, str | None]) -> None:
    """Raises ValueError if pairs have a fault that is refused, or if the target equals the source throughout."""
    for check, action in checks.items():
        numbers = inspection.faults[check]
        if action == "refuse" and len(numbers):
            raise ValueError(
                f"`data.train` ({name_of(corpus)}): {len(numbers):,} of {inspection.pairs:,} pairs "
                f"{check.phrase} (first: {first_numbers(numbers)}), which "
                f"`checks: {{{check}: refuse}}` refuses; mend the corpus, or write `drop` or `keep`"
            )
    is_judged = checks.get(Check.COPY, "keep") is None and inspection.pairs >= LEAST_PAIRS
    if is_judged and inspection.share(Check.COPY) > THROUGHOUT:
        raise ValueError(
            f"`data.train` ({name_of(corpus)}): the target is the source in {len(inspection.faults[Check.COPY]):,} of "
            f"{inspection.pairs:,} pairs; give the right file, or allow it with `checks: {{copied: keep}}` in `data`"
        )


def _dropped(inspection: Inspection, checks: Collection[Check]) -> DroppedPairs:
    """Returns the pairs that fail one of `checks`.

    If the first of several equal pairs is dropped for another fault, the next one is kept instead.
    """
    dropped: dict[int, Check] = {}
    for check in checks:
        if check not in inspection.first:
            for number in inspection.faults[check].tolist():
                dropped.setdefault(number, check)
    replaced = set[int]()
    for check in (check for check in checks if check in inspection.first):
        for number, first in zip(inspection.faults[check].tolist(), inspection.first[check].tolist(), strict=True):
            if first in dropped and first not in replaced and number not in dropped:
                replaced.add(first)
            else:
                dropped.setdefault(number, check)
    return dropped
