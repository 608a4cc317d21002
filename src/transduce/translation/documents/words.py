"""Words, their punctuation, and which parts of a translation stand for which parts of the source."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from transduce.runtime.combining_marks import combining_marks
from transduce.translation.documents.sentences import SPACELESS, SPACELESS_CHARACTER

__all__ = ["TextPiece", "link_pieces", "split_pieces"]

_WORD = re.compile(r"[^ \t\n]+")  # as `translation.alignment` counts words
_MARKS = combining_marks()
_CHARACTER_OR_WORD = re.compile(f"[{SPACELESS}][{_MARKS}]*|[^{SPACELESS}]+")
_PART = re.compile(rf"^(?P<prefix>[^\w{_MARKS}]*)(?P<core>.*?)(?P<suffix>[^\w{_MARKS}]*)$", re.DOTALL)


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
    links = [_link(piece, linked.get(piece.word), places, pieces, source, target) for piece in target_pieces]
    if pieces and target_pieces and pieces[-1].part == target_pieces[-1].part == "suffix":
        links[-1] = len(pieces) - 1
    return pieces, target_pieces, links


def _link(
    piece: TextPiece,
    word: int | None,
    places: dict[tuple[int, str], int],
    pieces: Sequence[TextPiece],
    source: str,
    target: str,
) -> int:
    """Returns the source piece of a target piece: that of the linked word, or the nearest equal punctuation, or −1."""
    if word is None:
        return -1
    if piece.part == "core" and (word, "core") in places:
        return places[word, "core"]
    same = [
        number
        for number, other in enumerate(pieces)
        if other.part == piece.part and source[other.start : other.end] == target[piece.start : piece.end]
    ]
    if piece.part != "core" and same:
        return min(same, key=lambda number: abs(pieces[number].word - word))
    return next((places[word, part] for part in (piece.part, "core", "suffix", "prefix") if (word, part) in places), -1)
