"""Brackets of a sentence's tree against those of its gold tree, counted as EVALB counts them.

A sentence is the trees of one line, usually one. Words whose part of speech is a deleted label count nowhere. Each
tree's own tags decide, so that a wrong tag can leave one tree with more words than the other: then the words that only
one of the trees lacks are put back. EVALB puts back quotation marks alone, and excludes the sentence for others;
`BracketCounts.put_back` marks those.

Two more departures from EVALB: an outer bracket without a label is TOP, and words are equal where they are the same
text, such as `1\\/2` and `1/2`.

What is counted (labels without weight, equal labels and words) is read from EVALB's parameter files.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from transduce.parsing.trees import Tree, read_trees, unescape_word

TreeLine = str | Tree | Sequence[Tree] | None
"""The trees of a sentence, or the line that has them; None where there is no tree."""

OUTER_LABEL = "TOP"  # of an outer bracket that has none, as in the files of the Penn Treebank
QUOTES = ("'", '"', "/")  # the words that EVALB puts back
IGNORED_KEYS = ("DEBUG", "MAX_ERROR")  # of EVALB the program: what it prints and when it gives up

Pairs = frozenset[tuple[str, str]]


class BracketParameters(NamedTuple):
    """Which labels, words and lengths are counted, in the terms of EVALB's parameter files.

    Pairs of equal labels and words stand in both orders.
    """

    name: str
    deleted_labels: frozenset[str]  # a part of speech goes with its word; a phrase leaves its parts
    deleted_for_length: frozenset[str] = frozenset()
    equal_labels: Pairs = frozenset()
    equal_words: Pairs = frozenset()
    cutoff: int = 40  # words of the longest sentence in the second summary
    labelled: bool = True
    quote_labels: frozenset[str] = frozenset()

    @property
    def signature(self) -> str:
        """The name, with a checksum of the values unless they are those of COLLINS."""
        if self[1:] == COLLINS[1:]:
            return COLLINS.name
        values = [sorted(value) if isinstance(value, frozenset) else value for value in self[1:]]
        return f"{self.name}-{hashlib.sha256(repr(values).encode()).hexdigest()[:8]}"

    @property
    def deleted_phrases(self) -> frozenset[str]:
        """The labels of phrases that are not counted: the deleted labels and those that equal one."""
        return self.deleted_labels | {one for one, other in self.equal_labels if other in self.deleted_labels}


def both_orders(pairs: Iterable[Sequence[str]]) -> Pairs:
    """Returns pairs in both orders."""
    return frozenset(ordered for one, other in pairs for ordered in ((one, other), (other, one)))


COLLINS = BracketParameters(
    name="COLLINS",
    deleted_labels=frozenset(("TOP", "-NONE-", ",", ":", "``", "''", ".")),
    deleted_for_length=frozenset(("-NONE-",)),
    equal_labels=both_orders([("ADVP", "PRT")]),
)
"""The values of COLLINS.prm, on which results on the Penn Treebank are reported (Collins 1997)."""


def parse_parameters(lines: Iterable[str], path: str) -> BracketParameters:
    """Returns the parameters in the lines of the file at `path`; the stem of its name is their name.

    Raises ValueError with file and line for an unknown key, and for a key with other values than it takes.
    """
    values: dict[str, list[list[str]]] = {key: [] for key in _ARGUMENTS}
    for number, line in enumerate(lines, start=1):
        key, *arguments = line.split() or [""]
        if not key or key.startswith("#") or key in IGNORED_KEYS:
            continue
        place = f"{path}: line {number}: {key}"
        if key not in _ARGUMENTS:
            raise ValueError(f"{place} is no parameter; the parameters are {', '.join((*_ARGUMENTS, *IGNORED_KEYS))}")
        form, shown = _ARGUMENTS[key]
        if not re.fullmatch(form, " ".join(arguments)):
            raise ValueError(f"{place} {' '.join(arguments)}: write {key} with {shown}")
        values[key].append(arguments)
    return _as_parameters(values, Path(path).stem)


# The form of the values of each key, in a pattern and in words.
_ARGUMENTS = {
    "CUTOFF_LEN": (r"\d{1,9}", "a number of words"),
    "LABELED": ("[01]", "1, or 0 for brackets without labels"),
    "DELETE_LABEL": (r"\S+", "one label"),
    "DELETE_LABEL_FOR_LENGTH": (r"\S+", "one label"),
    "QUOTE_LABEL": (r"\S+", "one label"),
    "EQ_LABEL": (r"\S+ \S+", "two labels"),
    "EQ_WORD": (r"\S+ \S+", "two words"),
}


def _as_parameters(values: dict[str, list[list[str]]], name: str) -> BracketParameters:
    """Returns the record of the values by key; the last number of a key counts."""

    def labels(key: str) -> frozenset[str]:
        return frozenset(label for (label,) in values[key])

    def number(key: str, default: int) -> int:
        return int(values[key][-1][0]) if values[key] else default

    return BracketParameters(
        name=name,
        deleted_labels=labels("DELETE_LABEL"),
        deleted_for_length=labels("DELETE_LABEL_FOR_LENGTH"),
        equal_labels=both_orders(values["EQ_LABEL"]),
        equal_words=both_orders(values["EQ_WORD"]),
        cutoff=number("CUTOFF_LEN", 40),
        labelled=bool(number("LABELED", 1)),
        quote_labels=labels("QUOTE_LABEL"),
    )


class BracketStatus(IntEnum):
    """Whether a sentence is counted: valid; its words are not those of the gold tree; or it has no words."""

    VALID = 0
    ERROR = 1
    SKIPPED = 2


class BracketCounts(NamedTuple):
    """The counts of one sentence; of a sentence that is not valid only `length`, `words` and `missed`."""

    status: BracketStatus
    length: int  # words of the gold tree, with punctuation: what the cutoff is compared with
    words: int  # words of the gold tree that are counted
    matched: int = 0
    gold: int = 0
    output: int = 0
    crossing: int = 0  # brackets of the output that cross one of gold
    tags: int = 0  # words with the tag of gold
    put_back: bool = False  # EVALB would exclude the sentence for its tags of punctuation
    missed: int = 0  # gold brackets of a sentence that is not valid
    reason: str = ""  # why the sentence is not valid


class Span(NamedTuple):
    """A phrase from word `start` to before word `end`."""

    label: str
    start: int
    end: int


class FlatTree(NamedTuple):
    """Parts of speech and words, from left to right, and the phrases over them in the order of their opening."""

    tags: list[str]
    words: list[str]
    phrases: list[Span]


def count_sentences(
    gold: Sequence[TreeLine], output: Sequence[TreeLine], parameters: BracketParameters = COLLINS
) -> list[BracketCounts]:
    """Returns the counts of every sentence.

    Raises ValueError for unequal numbers of sentences, and where a gold tree cannot be read; an output that cannot be
    read is an error of its sentence.
    """
    if len(gold) != len(output):
        raise ValueError(
            f"the output has {len(output):,} sentences but the reference {len(gold):,}; tree n of the reference must "
            "be of the sentence of tree n of the output, and an empty line stands for a tree that is missing"
        )
    return [
        count_brackets(_flat_gold(gold_line, number), line, parameters)
        for number, (gold_line, line) in enumerate(zip(gold, output, strict=True), start=1)
    ]


def _flat_gold(line: TreeLine, number: int) -> FlatTree:
    try:
        return flatten(line)
    except ValueError as error:
        raise ValueError(f"sentence {number} of the reference: {error}") from None


def flatten(line: TreeLine) -> FlatTree:
    """Returns the words and phrases of a sentence; raises ValueError where the text is no tree."""
    flat = FlatTree([], [], [])
    for tree in _trees(line):
        _add(tree, flat, OUTER_LABEL)
    return flat


def _trees(line: TreeLine) -> Iterator[Tree]:
    match line:
        case None:
            return
        case Tree():
            yield line
        case str():
            yield from (tree for _, tree in read_trees([line], "the text"))
        case _:
            yield from line


def _add(tree: Tree, flat: FlatTree, unlabelled: str) -> None:
    """Adds the words and phrases of a tree; `unlabelled` is the label of a bracket that has none."""
    children = tree.children
    if children and all(isinstance(child, str) for child in children):
        flat.tags.extend([tree.label] * len(children))
        flat.words.extend(children)  # type: ignore[arg-type]
        return
    place, start = len(flat.phrases), len(flat.words)
    flat.phrases.append(Span(tree.label or unlabelled, start, start))
    for child in children:
        if isinstance(child, str):
            raise ValueError(f"the word {child!r} in ({tree.label} …) has no part of speech")
        _add(child, flat, "")
    flat.phrases[place] = flat.phrases[place]._replace(end=len(flat.words))


def count_brackets(gold: FlatTree, line: TreeLine, parameters: BracketParameters) -> BracketCounts:
    """Returns the counts of a sentence's tree against its gold tree, as `flatten` returns it."""
    kept_gold = _kept(gold, parameters)
    missed = len(_spans(gold, kept_gold, parameters))
    length = sum(tag not in parameters.deleted_for_length for tag in gold.tags)
    failed = BracketCounts(BracketStatus.ERROR, length, sum(kept_gold), missed=missed)
    try:
        output = flatten(line)
    except ValueError as error:
        return failed._replace(reason=str(error))
    kept = _kept(output, parameters)
    if not any(kept):
        return failed._replace(status=BracketStatus.SKIPPED, reason="no words")
    put_back = sum(kept_gold) != sum(kept) and _put_back(gold, kept_gold, output, kept, parameters)
    if reason := _difference(_words(gold, kept_gold), _words(output, kept), parameters):
        return failed._replace(reason=reason)
    gold_spans, spans = _spans(gold, kept_gold, parameters), _spans(output, kept, parameters)
    return BracketCounts(
        status=BracketStatus.VALID,
        length=length,
        words=sum(kept_gold),
        matched=_matched(gold_spans, spans, parameters),
        gold=len(gold_spans),
        output=len(spans),
        crossing=_crossing(gold_spans, spans),
        tags=_equal_tags(gold, kept_gold, output, kept, parameters),
        put_back=put_back,
    )


def _kept(flat: FlatTree, parameters: BracketParameters) -> list[bool]:
    """Returns for each word whether it is counted."""
    return [tag not in parameters.deleted_labels for tag in flat.tags]


def _words(flat: FlatTree, kept: list[bool]) -> list[str]:
    return [word for word, keep in zip(flat.words, kept, strict=True) if keep]


def _difference(gold: list[str], output: list[str], parameters: BracketParameters) -> str:
    """Returns how the words of the output differ from those of gold, in a phrase; "" where they are the same."""
    if len(gold) != len(output):
        return f"{len(output)} words, not {len(gold)}"
    pairs = zip(gold, output, strict=True)
    return next((f"{word!r}, not {other!r}" for other, word in pairs if not _same(other, word, parameters)), "")


def _same(one: str, other: str, parameters: BracketParameters) -> bool:
    """Whether two words are equal by the parameters, or as text."""
    return one == other or (one, other) in parameters.equal_words or unescape_word(one) == unescape_word(other)


def _put_back(
    gold: FlatTree, kept_gold: list[bool], output: FlatTree, kept: list[bool], parameters: BracketParameters
) -> bool:
    """Counts the words that only one of the trees lacks; returns whether there are more of them than EVALB puts back.

    Changes `kept_gold` and `kept`, unless the trees have different words.
    """
    with_quotes_gold, with_quotes = kept_gold.copy(), kept.copy()
    _put_back_quotes(gold, with_quotes_gold, output, with_quotes, parameters)
    if not _difference(_words(gold, with_quotes_gold), _words(output, with_quotes), parameters):
        kept_gold[:], kept[:] = with_quotes_gold, with_quotes
        return False
    places_gold, places = _places(gold, parameters), _places(output, parameters)
    words_gold, words = [gold.words[place] for place in places_gold], [output.words[place] for place in places]
    if _difference(words_gold, words, parameters):
        return False
    for place_gold, place in zip(places_gold, places, strict=True):
        kept_gold[place_gold] = kept[place] = kept_gold[place_gold] or kept[place]
    return True


def _places(flat: FlatTree, parameters: BracketParameters) -> list[int]:
    """Returns the places of all words, punctuation included; traces are no words."""
    traces = parameters.deleted_labels & parameters.deleted_for_length
    return [place for place, tag in enumerate(flat.tags) if tag not in traces]


def _put_back_quotes(
    gold: FlatTree, kept_gold: list[bool], output: FlatTree, kept: list[bool], parameters: BracketParameters
) -> None:
    """Counts the quotation marks that only one of the trees lacks, where as many counted words precede in both."""
    for place in _quotes(output, parameters):
        before = sum(kept[:place])
        for place_gold in _quotes(gold, parameters):
            if sum(kept_gold[:place_gold]) == before:
                kept_gold[place_gold] = kept[place] = kept_gold[place_gold] or kept[place]


def _quotes(flat: FlatTree, parameters: BracketParameters) -> list[int]:
    return [
        place
        for place, (tag, word) in enumerate(zip(flat.tags, flat.words, strict=True))
        if word in QUOTES and tag in parameters.quote_labels
    ]


def _spans(flat: FlatTree, kept: list[bool], parameters: BracketParameters) -> list[Span]:
    """Returns the phrases that are counted, over the words that are counted."""
    before = list(accumulate(kept, initial=0))
    spans = (Span(phrase_label(label), before[start], before[end]) for label, start, end in flat.phrases)
    deleted = parameters.deleted_phrases
    return [span for span in spans if span.start < span.end and span.label not in deleted]


@cache
def phrase_label(label: str) -> str:
    """Returns a label up to its first `-` or `=`, as EVALB cuts it, also where nothing precedes."""
    return label.partition("-")[0].partition("=")[0]


def _matched(gold: list[Span], output: list[Span], parameters: BracketParameters) -> int:
    """Returns how many brackets match, each with one of the other tree; the first that fits, as in EVALB."""
    open_labels: dict[tuple[int, int], list[str]] = defaultdict(list)
    for label, start, end in output:
        open_labels[start, end].append(label)
    matched = 0
    for label, start, end in gold:
        labels = open_labels.get((start, end), [])
        for place, other in enumerate(labels):
            if not parameters.labelled or _equal_labels(label, other, parameters):
                del labels[place]
                matched += 1
                break
    return matched


def _equal_labels(one: str, other: str, parameters: BracketParameters) -> bool:
    return one == other or (one, other) in parameters.equal_labels


def _crossing(gold: list[Span], output: list[Span]) -> int:
    """Returns the number of brackets of the output that overlap one of gold, neither inside of the other."""
    spans = {(start, end) for _, start, end in gold}
    count = 0
    for _, start, end in output:
        # A span of gold crosses no other span of gold.
        if (start, end) not in spans:
            count += any(first < start < last < end or start < first < end < last for first, last in spans)
    return count


def _equal_tags(
    gold: FlatTree, kept_gold: list[bool], output: FlatTree, kept: list[bool], parameters: BracketParameters
) -> int:
    """Returns the number of words that are counted and have the tag of gold."""
    tags_gold = (tag for tag, keep in zip(gold.tags, kept_gold, strict=True) if keep)
    tags = (tag for tag, keep in zip(output.tags, kept, strict=True) if keep)
    return sum(_equal_labels(one, other, parameters) for one, other in zip(tags_gold, tags, strict=True))
