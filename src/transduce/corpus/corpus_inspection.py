"""Inspects a corpus: finds the faults of its pairs, and then reads it again to collect examples of each fault."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.corpus.misalignment import Misalignment, find_misalignment
from transduce.corpus.pair_checks import name_of
from transduce.corpus.readers import read_byte_pairs, read_pairs
from transduce.inspection.held_out import HeldOutText
from transduce.inspection.inspector import Inspection, PairInspector
from transduce.inspection.languages import PairLanguages
from transduce.inspection.line_checks import Check
from transduce.runtime.progress import track

THROUGHOUT = 0.9
"""The share of faulty pairs in a corpus, or of faulty lines in a set, above which the whole is considered faulty."""

LEAST_PAIRS = 100
"""The minimum number of pairs in a corpus, or of lines in a set, for which this share is meaningful."""

PROGRESS_PAIRS = 10_000


class FaultExample(NamedTuple):
    """A pair with a fault. If it repeats an earlier pair, `repeats` is the number of that pair, and otherwise None."""

    number: int
    source: str
    target: str
    repeats: int | None


class CorpusInspection(NamedTuple):
    """The faults of individual pairs, with the first examples of each, and the faults of the corpus as a whole."""

    name: str
    inspection: Inspection
    examples: dict[Check, list[FaultExample]]
    misalignment: Misalignment | None

    def verdicts(self) -> list[str]:
        """Returns one sentence for each fault of the corpus as a whole."""
        inspection, verdicts = self.inspection, []
        if inspection.pairs >= LEAST_PAIRS and inspection.share(Check.COPY) > THROUGHOUT:
            verdicts.append("The target is the source throughout the corpus.")
        if inspection.share(Check.SWAPPED) > 0.5:
            verdicts.append(
                "The sides are exchanged throughout the corpus: exchange the two files, or their languages."
            )
        for side, codes in zip(("source", "target"), inspection.languages, strict=True):
            if codes and inspection.share(Check.WRONG_LANGUAGE) > 0.5:
                language = max(codes, key=codes.__getitem__)
                verdicts.append(f"Most first lines of the {side} are in the language {language}.")
        if self.misalignment is not None:
            verdicts.append(f"The lines are out of step; {self.misalignment.describe('the source', 'the target')}.")
        if inspection.normalised:
            counts = ", ".join(f"{part} in {count:,} lines" for part, count in inspection.normalised.items())
            verdicts.append(f"The normaliser of the subwords changes {counts}.")
        verdicts += [
            f"The corpus has the sources of {text.contained:,} of {text.lines:,} lines ({text.share:.1%}) of "
            f"{text.name}."
            for text in inspection.held_out
            if text.contained
        ]
        return verdicts


def inspect_corpus(
    corpus: CorpusSpec,
    checks: Collection[Check],
    languages: PairLanguages | None = None,
    held_out: Sequence[HeldOutText] = (),
    examples: int = 3,
) -> CorpusInspection:
    """Finds the faults of a corpus, and collects the first `examples` pairs with each fault.

    `languages` is needed only for checks that identify languages, and `held_out` only for `Check.OVERLAP`. Raises
    ValueError or OSError if the corpus cannot be read.
    """
    inspection = inspect_pairs(corpus, checks, languages, held_out)
    misalignment = find_misalignment(
        (source for source, _ in read_byte_pairs(corpus)), (target for _, target in read_byte_pairs(corpus))
    )
    return CorpusInspection(name_of(corpus), inspection, _examples(corpus, inspection, examples), misalignment)


def inspect_pairs(
    corpus: CorpusSpec,
    checks: Collection[Check],
    languages: PairLanguages | None = None,
    held_out: Sequence[HeldOutText] = (),
) -> Inspection:
    """Reads a corpus once and returns the faults of its pairs.

    Raises ValueError or OSError if the corpus cannot be read.
    """
    inspector = PairInspector(checks, languages, held_out)
    with track(f"inspecting {name_of(corpus)}") as progress:
        for number, (source, target, is_utf8) in enumerate(read_decoded(corpus), start=1):
            inspector.add(source, target, is_utf8=is_utf8)
            if number % PROGRESS_PAIRS == 0:
                progress.update(number)
    return inspector.finish()


def read_decoded(corpus: CorpusSpec) -> Iterator[tuple[str, str, bool]]:
    """Yields the source and the target of each pair as text, and whether both are valid UTF-8.

    Invalid bytes are replaced with U+FFFD.
    """
    for source, target in read_byte_pairs(corpus):
        try:
            yield source.decode(), target.decode(), True
        except UnicodeDecodeError:
            yield source.decode(errors="replace"), target.decode(errors="replace"), False


def _examples(corpus: CorpusSpec, inspection: Inspection, count: int) -> dict[Check, list[FaultExample]]:
    """Returns the first `count` pairs with each fault. The corpus is read only up to the last of them."""
    chosen = {check: [int(number) for number in numbers[:count]] for check, numbers in inspection.faults.items()}
    numbers_of_examples = {number for numbers in chosen.values() for number in numbers}
    pairs = enumerate(islice(read_decoded(corpus), max(numbers_of_examples, default=0)), start=1)
    texts = {number: (source, target) for number, (source, target, _) in pairs if number in numbers_of_examples}
    return {
        check: [
            FaultExample(
                number, *texts[number], int(inspection.first[check][index]) if check in inspection.first else None
            )
            for index, number in enumerate(numbers)
        ]
        for check, numbers in chosen.items()
        if numbers
    }


def read_held_out(sets: Iterable[tuple[str, CorpusSpec]]) -> list[HeldOutText]:
    """Reads the sources of validation and test sets, each given as a name and a corpus.

    Sets whose files do not exist are left out.
    """
    texts = []
    for name, corpus in sets:
        try:
            texts.append(HeldOutText(f"{name} ({name_of(corpus)})", (source for source, _ in read_pairs(corpus))))
        except FileNotFoundError:
            continue
    return texts
