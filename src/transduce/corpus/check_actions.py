"""Applies `data.checks` to the training corpora: drops faulty pairs, or raises an error for a whole corpus.

By default, two mistakes raise an error: a corpus in which nearly every target is a copy of its source, and a validation
or test set that is contained in the training corpora.
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
"""The share of a corpus's first long pairs whose languages must be swapped for a warning to be logged.

The share is low because many pairs do not show their language clearly.
"""

DroppedPairs = Mapping[int, Check]
"""Maps the number of each pair that is dropped from a corpus, counted from 1, to the first check that it fails."""


def run_checks(data: DataSpec) -> list[DroppedPairs]:
    """Returns the pairs that `data.checks` drops from each training corpus.

    Raises ValueError if a corpus has a fault for which the recipe says `refuse`, if a validation or test set is
    contained in the training corpora, or if a check needs language identification and it is not installed.
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
    # Unless the recipe says what to do with overlapping pairs, a held-out set that the training corpora contain is an
    # error.
    for text in held_out if checks.get(Check.OVERLAP, "keep") is None else ():
        if text.lines >= LEAST_PAIRS and text.share > THROUGHOUT:
            raise ValueError(
                f"`data.train` has the sources of {text.contained:,} of {text.lines:,} lines of {text.name}, which "
                "shows nothing about other text then; take another set (`transduce split` makes one), drop these "
                "training pairs with `checks: {overlap: drop}` in `data`, or allow it with `checks: {overlap: keep}`"
            )
    return dropped


def warn_of_exchanged_sides(data: DataSpec) -> None:
    """Logs a warning for each corpus whose source and target languages seem to be swapped.

    Only the first pairs are examined. A corpus is skipped if it does not name both languages or has too few long pairs.
    If the extra `languages` is not installed, no corpus is examined.
    """
    for corpus in data.train:
        direction = data.direction_of(corpus)
        if isinstance(corpus, Embedded) or not isinstance(corpus, ParallelCorpus) or not all(direction):
            continue
        pairs = islice(read_decoded(corpus), LEARNED)  # the first pairs may be short
        long = [(source, target) for source, target, _ in pairs if min(len(source), len(target)) >= LEAST_LETTERS]
        identify = None
        if len(long) >= LEAST_PAIRS:
            with contextlib.suppress(OSError):  # a failure to unpack the library's model on disk must not stop a run
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
    """Returns True if pairs are inspected for this fault, either because the recipe says so or by default."""
    is_default = check is Check.COPY or (check is Check.OVERLAP and (data.validations or data.test))
    return data.checks.get(check, "refuse" if is_default else "keep") != "keep"


def _held_out(data: DataSpec) -> Iterable[HeldOutText]:
    """Yields the sources of each validation and test set.

    Sets whose files do not exist are left out. If a set cannot be read for a different reason, OSError or ValueError is
    raised only if `data.checks` contains `overlap`. Otherwise, the set is left out here, and the error is raised when
    the set is used.
    """
    named = [("the validation set", corpus) for corpus in data.validations]
    for name, corpus in (*named, *((f"the test set {name}", corpus) for name, corpus in data.test.items())):
        try:
            yield from read_held_out([(name, corpus)])
        except (OSError, ValueError):
            if Check.OVERLAP in data.checks:
                raise


def _refuse(corpus: CorpusSpec, inspection: Inspection, checks: Mapping[Check, str | None]) -> None:
    """Raises ValueError for a fault with the action `refuse`, or if nearly every target is a copy of its source."""
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
    """Returns the pairs that fail one of `checks`, each with the first check that it fails.

    If the first of several equal pairs is dropped because of a different fault, the next one is kept in its place.
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
