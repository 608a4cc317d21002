"""Counts the brackets of an output tree that match the gold tree of the sentence, as EVALB does.

The trees in one line, usually a single tree, form a sentence. Words whose part of speech is a deleted label are not
counted. Since each tree has its own tags, a wrong tag may cause a word to be deleted in one tree but not in the other.
Words that are deleted in only one of the trees are put back. EVALB puts back only quotation marks, and excludes the
sentence if any other word is missing. `BracketCounts.put_back` marks the sentences that EVALB would exclude.

There are two more differences from EVALB. An outer bracket without a label gets the label TOP, and two words are equal
if they represent the same text, for example `1\\/2` and `1/2`.

The parameter files of EVALB define which labels are deleted, and which labels and words count as equal.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache
from itertools import accumulate, compress
from pathlib import Path
from typing import NamedTuple

from transduce.parsing.trees import Tree, read_trees, unescape_word

TreeLine = str | Tree | Sequence[Tree] | None
"""The trees of a sentence, or the line that contains them, or None if there is no tree."""

OUTER_LABEL = "TOP"  # given to an outer bracket that has no label, as in the files of the Penn Treebank
QUOTES = ("'", '"', "/")  # the words that EVALB puts back
IGNORED_KEYS = ("DEBUG", "MAX_ERROR")  # these only determine what the EVALB program prints and when it gives up

Pairs = frozenset[tuple[str, str]]


class BracketParameters(NamedTuple):
    """Defines which labels, words and sentence lengths are counted, in the terms of EVALB's parameter files.

    Pairs of equal labels or equal words are stored in both orders.
    """

    name: str
    # A part of speech with such a label is deleted together with its word. A phrase is deleted, but its parts are kept.
    deleted_labels: frozenset[str]
    deleted_for_length: frozenset[str] = frozenset()
    equal_labels: Pairs = frozenset()
    equal_words: Pairs = frozenset()
    cutoff: int = 40  # largest number of words in a sentence of the second summary
    labelled: bool = True
    quote_labels: frozenset[str] = frozenset()

    @property
    def signature(self) -> str:
        """The name of the parameters, followed by a checksum of their values unless these are the values of COLLINS."""
        if self[1:] == COLLINS[1:]:
            return COLLINS.name
        values = [sorted(value) if isinstance(value, frozenset) else value for value in self[1:]]
        return f"{self.name}-{hashlib.sha256(repr(values).encode()).hexdigest()[:8]}"

    @property
    def deleted_phrases(self) -> frozenset[str]:
        """The labels of phrases that are not counted: the deleted labels, and all labels equal to one of them."""
        return self.deleted_labels | {one for one, other in self.equal_labels if other in self.deleted_labels}

    def are_equal_labels(self, one: str, other: str) -> bool:
        """Returns whether two labels are identical, or equal according to the parameters."""
        return one == other or (one, other) in self.equal_labels

    def are_equal_words(self, one: str, other: str) -> bool:
        """Returns whether two words are identical, equal according to the parameters, or represent the same text."""
        return one == other or (one, other) in self.equal_words or unescape_word(one) == unescape_word(other)


def both_orders(pairs: Iterable[Sequence[str]]) -> Pairs:
    """Returns each of the pairs in both orders."""
    return frozenset(ordered for one, other in pairs for ordered in ((one, other), (other, one)))


COLLINS = BracketParameters(
    name="COLLINS",
    deleted_labels=frozenset(("TOP", "-NONE-", ",", ":", "``", "''", ".")),
    deleted_for_length=frozenset(("-NONE-",)),
    equal_labels=both_orders([("ADVP", "PRT")]),
)
"""The values of COLLINS.prm, the usual parameters for results on the Penn Treebank (Collins 1997)."""


def parse_parameters(lines: Iterable[str], path: str) -> BracketParameters:
    """Parses the lines of an EVALB parameter file. The name of the parameters is the stem of `path`.

    Raises ValueError, with the file and the line, if a key is unknown or if its values have the wrong form.
    """
    values: dict[str, list[list[str]]] = {key: [] for key in _ARGUMENTS}
    for line_number, line in enumerate(lines, start=1):
        key, *arguments = line.split() or [""]
        if not key or key.startswith("#") or key in IGNORED_KEYS:
            continue
        fault = f"{path}: line {line_number}: {key}"
        if key not in _ARGUMENTS:
            raise ValueError(
                f"{fault} is not a parameter; the parameters are {', '.join((*_ARGUMENTS, *IGNORED_KEYS))}"
            )
        form, description = _ARGUMENTS[key]
        if not re.fullmatch(form, " ".join(arguments)):
            raise ValueError(f"{fault} {' '.join(arguments)}: write {key} with {description}")
        values[key].append(arguments)

    def labels(key: str) -> frozenset[str]:
        return frozenset(label for (label,) in values[key])

    def last_number(key: str, default: int) -> int:
        return int(values[key][-1][0]) if values[key] else default

    return BracketParameters(
        name=Path(path).stem,
        deleted_labels=labels("DELETE_LABEL"),
        deleted_for_length=labels("DELETE_LABEL_FOR_LENGTH"),
        equal_labels=both_orders(values["EQ_LABEL"]),
        equal_words=both_orders(values["EQ_WORD"]),
        cutoff=last_number("CUTOFF_LEN", 40),
        labelled=bool(last_number("LABELED", 1)),
        quote_labels=labels("QUOTE_LABEL"),
    )


# The form of the values of each key, as a regular expression and in words.
_ARGUMENTS = {
    "CUTOFF_LEN": (r"\d{1,9}", "a number of words"),
    "LABELED": ("[01]", "1, or 0 for brackets without labels"),
    "DELETE_LABEL": (r"\S+", "one label"),
    "DELETE_LABEL_FOR_LENGTH": (r"\S+", "one label"),
    "QUOTE_LABEL": (r"\S+", "one label"),
    "EQ_LABEL": (r"\S+ \S+", "two labels"),
    "EQ_WORD": (r"\S+ \S+", "two words"),
}


class BracketStatus(IntEnum):
    """The status of a sentence. Only the brackets of VALID sentences are counted.

    ERROR means that the output is not a tree over the words of the gold tree. SKIPPED means that the output has no
    words that are counted.
    """

    VALID = 0
    ERROR = 1
    SKIPPED = 2


class BracketCounts(NamedTuple):
    """The counts of one sentence. For an invalid sentence, only `length`, `words`, `missed` and `reason` are set."""

    status: BracketStatus
    length: int  # number of words in the gold tree, including punctuation; compared with the cutoff
    words: int  # number of words in the gold tree that are counted
    matched: int = 0
    gold: int = 0
    output: int = 0
    crossing: int = 0  # number of output brackets that cross a gold bracket
    tags: int = 0  # number of words whose tag is equal to the gold tag
    put_back: bool = False  # whether EVALB would exclude the sentence because of the tags of its punctuation
    missed: int = 0  # number of gold brackets in an invalid sentence
    reason: str = ""  # why the sentence is invalid


class Span(NamedTuple):
    """A phrase that covers the words from `start` up to, but not including, `end`."""

    label: str
    start: int
    end: int


class FlatTree(NamedTuple):
    """The parts of speech and words of a sentence in order, and its phrases in the order in which they open."""

    tags: list[str]
    words: list[str]
    phrases: list[Span]


def count_sentences(
    gold: Sequence[TreeLine], output: Sequence[TreeLine], parameters: BracketParameters = COLLINS
) -> list[BracketCounts]:
    """Counts the brackets of every sentence.

    If the output for a sentence cannot be read, the sentence gets the status ERROR. Raises ValueError if the numbers of
    sentences differ, or if a gold tree cannot be read.
    """
    if len(gold) != len(output):
        raise ValueError(
            f"the output has {len(output):,} sentences but the reference {len(gold):,}; tree n of the reference must "
            "be of the sentence of tree n of the output, and an empty line stands for a tree that is missing"
        )
    counts = []
    for number, (gold_line, line) in enumerate(zip(gold, output, strict=True), start=1):
        try:
            flat_gold = flatten(gold_line)
        except ValueError as error:
            raise ValueError(f"sentence {number} of the reference: {error}") from None
        counts.append(count_brackets(flat_gold, line, parameters))
    return counts


def flatten(line: TreeLine) -> FlatTree:
    """Returns the words and phrases of a sentence; raises ValueError if its text is not a tree."""
    match line:
        case None:
            trees: Iterable[Tree] = ()
        case Tree():
            trees = [line]
        case str():
            trees = (tree for _, tree in read_trees([line], "the text"))
        case _:
            trees = line
    flat = FlatTree([], [], [])
    for tree in trees:
        _add(tree, flat, OUTER_LABEL)
    return flat


def _add(tree: Tree, flat: FlatTree, unlabelled: str) -> None:
    """Adds the words and phrases of a tree to `flat`. A bracket without a label gets the label `unlabelled`."""
    children = tree.children
    if children and all(isinstance(child, str) for child in children):
        flat.tags.extend([tree.label] * len(children))
        flat.words.extend(children)  # type: ignore[arg-type]
        return
    index, start = len(flat.phrases), len(flat.words)
    flat.phrases.append(Span(tree.label or unlabelled, start, start))
    for child in children:
        if isinstance(child, str):
            raise ValueError(f"the word {child!r} in ({tree.label} …) has no part of speech")
        _add(child, flat, "")
    flat.phrases[index] = flat.phrases[index]._replace(end=len(flat.words))


def count_brackets(gold: FlatTree, line: TreeLine, parameters: BracketParameters) -> BracketCounts:
    """Compares the output tree in `line` with the flattened gold tree of the sentence, and returns the counts."""
    is_counted_gold = [tag not in parameters.deleted_labels for tag in gold.tags]
    missed = len(_spans(gold, is_counted_gold, parameters))
    length = sum(tag not in parameters.deleted_for_length for tag in gold.tags)
    failed = BracketCounts(BracketStatus.ERROR, length, sum(is_counted_gold), missed=missed)
    try:
        output = flatten(line)
    except ValueError as error:
        return failed._replace(reason=str(error))
    is_counted = [tag not in parameters.deleted_labels for tag in output.tags]
    if not any(is_counted):
        return failed._replace(status=BracketStatus.SKIPPED, reason="no words")
    put_back = False
    if sum(is_counted_gold) != sum(is_counted):
        put_back = _put_back(gold, is_counted_gold, output, is_counted, parameters)
    words_gold, words = list(compress(gold.words, is_counted_gold)), list(compress(output.words, is_counted))
    if reason := _difference(words_gold, words, parameters):
        return failed._replace(reason=reason)
    spans_gold, spans = _spans(gold, is_counted_gold, parameters), _spans(output, is_counted, parameters)
    # As in EVALB, each bracket matches at most one bracket of the other tree: the first one that fits.
    unmatched: dict[tuple[int, int], list[str]] = defaultdict(list)
    for label, start, end in spans:
        unmatched[start, end].append(label)
    matched = 0
    for label, start, end in spans_gold:
        labels = unmatched.get((start, end), [])
        for index, other in enumerate(labels):
            if not parameters.labelled or parameters.are_equal_labels(label, other):
                del labels[index]
                matched += 1
                break
    # An output bracket crosses a gold bracket if they overlap and neither is inside the other. Gold brackets do not
    # cross each other, so an output bracket with the span of a gold bracket crosses none.
    edges_gold, crossing = {(start, end) for _, start, end in spans_gold}, 0
    for _, start, end in spans:
        if (start, end) not in edges_gold:
            crossing += any(first < start < last < end or start < first < end < last for first, last in edges_gold)
    tags = zip(compress(gold.tags, is_counted_gold), compress(output.tags, is_counted), strict=True)
    return BracketCounts(
        status=BracketStatus.VALID,
        length=length,
        words=sum(is_counted_gold),
        matched=matched,
        gold=len(spans_gold),
        output=len(spans),
        crossing=crossing,
        tags=sum(parameters.are_equal_labels(one, other) for one, other in tags),
        put_back=put_back,
    )


def _difference(gold: list[str], output: list[str], parameters: BracketParameters) -> str:
    """Describes how the words of the output differ from the gold words. Returns "" if they are the same."""
    if len(gold) != len(output):
        return f"{len(output)} words, not {len(gold)}"
    for expected, word in zip(gold, output, strict=True):
        if not parameters.are_equal_words(expected, word):
            return f"{word!r}, not {expected!r}"
    return ""


def _put_back(
    gold: FlatTree,
    is_counted_gold: list[bool],
    output: FlatTree,
    is_counted: list[bool],
    parameters: BracketParameters,
) -> bool:
    """Puts back the words that are deleted in only one of the trees.

    Changes `is_counted_gold` and `is_counted` in place, unless the two trees have different words. Returns whether more
    words were put back than EVALB puts back.
    """

    def quotes(flat: FlatTree) -> list[int]:
        tagged = enumerate(zip(flat.tags, flat.words, strict=True))
        return [index for index, (tag, word) in tagged if word in QUOTES and tag in parameters.quote_labels]

    # As in EVALB, put back a quotation mark that only one tree lacks if the same number of counted words precedes it in
    # both trees.
    with_quotes_gold, with_quotes = is_counted_gold.copy(), is_counted.copy()
    for index in quotes(output):
        before = sum(with_quotes[:index])
        for index_gold in quotes(gold):
            if sum(with_quotes_gold[:index_gold]) == before:
                with_quotes_gold[index_gold] = with_quotes[index] = with_quotes_gold[index_gold] or with_quotes[index]
    words_gold, words = list(compress(gold.words, with_quotes_gold)), list(compress(output.words, with_quotes))
    if not _difference(words_gold, words, parameters):
        is_counted_gold[:], is_counted[:] = with_quotes_gold, with_quotes
        return False
    # Otherwise, compare all words, including punctuation but without traces.
    traces = parameters.deleted_labels & parameters.deleted_for_length
    indices_gold, indices = ([n for n, tag in enumerate(flat.tags) if tag not in traces] for flat in (gold, output))
    if _difference([gold.words[n] for n in indices_gold], [output.words[n] for n in indices], parameters):
        return False
    for index_gold, index in zip(indices_gold, indices, strict=True):
        is_counted_gold[index_gold] = is_counted[index] = is_counted_gold[index_gold] or is_counted[index]
    return True


def _spans(flat: FlatTree, is_counted: list[bool], parameters: BracketParameters) -> list[Span]:
    """Returns the phrases that are counted, as spans over the words that are counted."""
    before = list(accumulate(is_counted, initial=0))
    spans = (Span(phrase_label(label), before[start], before[end]) for label, start, end in flat.phrases)
    deleted = parameters.deleted_phrases
    return [span for span in spans if span.start < span.end and span.label not in deleted]


@cache
def phrase_label(label: str) -> str:
    """Returns the part of a label before its first `-` or `=`, as EVALB does, even if this part is empty."""
    return label.partition("-")[0].partition("=")[0]
