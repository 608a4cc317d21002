"""Words, their punctuation, and which parts of a translation stand for which parts of the source."""

import bisect
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from transduce.documents.sentences import SPACELESS, SPACELESS_CHARACTER
from transduce.runtime.combining_marks import combining_marks

__all__ = ["TextPiece", "link_pieces", "split_pieces"]

_WORD = re.compile(r"[^ \t\n]+")  # as `translation.alignment` counts words
_MARKS = combining_marks()
_CHARACTER_OR_WORD = re.compile(f"[{SPACELESS}][{_MARKS}]*|[^{SPACELESS}]+")
_PART = re.compile(rf"^(?P<prefix>[^\w{_MARKS}]*)(?P<core>(?:.*[\w{_MARKS}])?)(?P<suffix>[^\w{_MARKS}]*)$", re.DOTALL)


class TextPiece(NamedTuple):
    """A part of a word: its core, or a character of the punctuation before or after it."""

    start: int
    end: int
    word: int
    part: str  # prefix, core or suffix


def split_pieces(text: str) -> list[TextPiece]:
    """Returns the parts of all words of a text; in scripts without spaces each character is a word."""
    words = [
        (match.start() + inner.start(), match.start() + inner.end())
        for match in _WORD.finditer(text)
        for inner in _CHARACTER_OR_WORD.finditer(match.group())
    ]
    pieces = []
    for number, (start, end) in enumerate(words):
        parts = _PART.match(text[start:end])
        assert parts is not None
        for name in ("prefix", "core", "suffix"):
            first, last = start + parts.start(name), start + parts.end(name)
            step = max(1, last - first) if name == "core" else 1
            pieces += [TextPiece(place, place + step, number, name) for place in range(first, last, step)]
    return pieces


def link_pieces(
    source: str, target: str, alignment: Sequence[tuple[int, int]] | None
) -> tuple[list[TextPiece], list[TextPiece], list[int]]:
    """Returns the pieces of both texts, and for each target piece the number of its source piece.

    `alignment` has (source word, target word), as `aligned_words` returns them. Without it, and for scripts without
    spaces, words are linked by their relative position.
    """
    pieces, target_pieces = split_pieces(source), split_pieces(target)
    words = pieces[-1].word + 1 if pieces else 0
    target_words = target_pieces[-1].word + 1 if target_pieces else 0
    if alignment is None or SPACELESS_CHARACTER.search(source) or SPACELESS_CHARACTER.search(target):
        linked = {word: min(words - 1, (2 * word + 1) * words // (2 * target_words)) for word in range(target_words)}
    else:
        linked = {target_word: min(word, words - 1) for word, target_word in alignment}
    places = {(piece.word, piece.part): number for number, piece in enumerate(pieces)}
    punctuation = defaultdict[tuple[str, str], list[int]](list)  # the words beside which equal punctuation stands
    numbers: dict[tuple[tuple[str, str], int], int] = {}
    for number, piece in enumerate(pieces):
        if piece.part != "core":
            key = (piece.part, source[piece.start : piece.end])
            punctuation[key].append(piece.word)
            numbers.setdefault((key, piece.word), number)
    links = []
    for piece in target_pieces:
        word, key = linked.get(piece.word), (piece.part, target[piece.start : piece.end])
        if word is not None and key in punctuation:
            links.append(numbers[key, _nearest(punctuation[key], word)])
        else:
            links.append(_link(piece, word, places))
    if pieces and target_pieces and pieces[-1].part == target_pieces[-1].part == "suffix":
        links[-1] = len(pieces) - 1
    return pieces, target_pieces, links


def _nearest(words: Sequence[int], word: int) -> int:
    """Returns the nearest of sorted words; the first of two that are equally near."""
    place = bisect.bisect_left(words, word)
    return min(words[max(0, place - 1) : place + 1], key=lambda other: abs(other - word))


def _link(piece: TextPiece, word: int | None, places: Mapping[tuple[int, str], int]) -> int:
    """Returns the source piece of a target piece: a part of the linked word, or −1."""
    if word is None:
        return -1
    return next((places[word, part] for part in (piece.part, "core", "suffix", "prefix") if (word, part) in places), -1)
