"""Marks of terms: a source with target words between marks, in the places of its terms (Dinu et al. 2019, "replace").

A model that is trained on such sources copies what stands between the marks. The marks are tags of the source
vocabulary. Within a line they are spelt as the vocabulary spells them; only `encode_marked` reads them, and text of
users that has a mark of its own is never marked.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from transduce.text.source_tags import TERM_MARKS, subword_of_tag
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import TokenVocabulary, ids_of_tags, tags_of

__all__ = ["MarkedSpan", "MarkedSubwords", "encode_marked", "has_term_marks", "mark_terms", "with_term_marks"]

TERM_BEGIN, TERM_END = map(subword_of_tag, TERM_MARKS)
MARK = re.compile(f"({TERM_BEGIN}|{TERM_END})")


class MarkedSpan(NamedTuple):
    """The characters of a term in a line, from `start` to `end`, and the translation that stands in their place."""

    start: int
    end: int
    target: str


def has_term_marks(vocabulary: TokenVocabulary) -> bool:
    """Returns whether a vocabulary has the marks of terms."""
    return tags_of(vocabulary).keys() >= set(TERM_MARKS)


def with_term_marks(sides: tuple[TokenVocabulary, TokenVocabulary]) -> tuple[TokenVocabulary, TokenVocabulary]:
    """Returns the vocabularies of another model with the marks of terms.

    Raises ValueError where the sides do not share subwords of transduce: a model copies ids.
    """
    source, target = sides
    if source is not target or not isinstance(source, Subwords):
        raise ValueError(
            "`data.terms` needs subwords of transduce that both sides share, and those of --from are others: leave "
            "`data.terms` out"
        )
    if has_term_marks(source):
        return sides
    marked = source.with_tags(TERM_MARKS)
    return marked, marked


def mark_terms(line: str, spans: Iterable[MarkedSpan]) -> str | None:
    """Returns `line` with marked translations in the places of `spans`, which are in their order.

    Returns None where the line or a translation has the text of a mark already.
    """
    parts, place, spans = [], 0, list(spans)
    if any(map(MARK.search, (line, *(span.target for span in spans)))):
        return None
    for start, end, target in spans:
        parts += [line[place:start], TERM_BEGIN, target, TERM_END]
        place = end
    return "".join([*parts, line[place:]])


def encode_marked(subwords: Subwords, lines: Sequence[str]) -> list[list[int]]:
    """Returns the ids of lines with marked terms; spaces beside a mark have none."""
    marks = dict(zip((TERM_BEGIN, TERM_END), ids_of_tags(subwords, TERM_MARKS), strict=True))
    parts = [MARK.split(line) for line in lines]
    # Not `subwords.encode`, which reads the marks in `MarkedSubwords`.
    texts = iter(Subwords.encode(subwords, [text.strip(" ") for line in parts for text in line[::2]]))
    return [[token for part in line for token in ([marks[part]] if part in marks else next(texts))] for line in parts]


class MarkedSubwords(Subwords):
    """Subwords for lines in which terms are marked."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line; raises ValueError for half a surrogate pair."""
        return encode_marked(self, lines)
