"""Cuts a unit into sentences with the markers inside them, and joins their translations again."""

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transduce.documents.flat_text import FlatText, Marker, MarkerItem, flatten, takes_no_room
from transduce.documents.placeholders import Placeholder
from transduce.documents.sentences import SPACELESS_CHARACTER, CutSpan, SentenceSplitter
from transduce.documents.units import (
    ClosingTag,
    Content,
    InlineCode,
    InlineItem,
    OpeningTag,
    Unit,
    has_letters,
)

__all__ = ["DividedUnit", "UnitSentence", "divide"]


class UnitSentence(NamedTuple):
    """A sentence of a unit: its text, and the markers that stand inside it, at offsets in the text."""

    text: str
    markers: tuple[Marker, ...]

    @property
    def source(self) -> str:
        """The text as a model reads it, in one line. Each white space is one character, so offsets stay."""
        return "".join(" " if character in "\t\r\n" else character for character in self.text)

    @property
    def is_translated(self) -> bool:
        """Whether there are letters besides placeholders."""
        return has_letters(self.text)


class DividedUnit(NamedTuple):
    """A unit as sentences, and what stands between them: white space and markers."""

    parts: tuple[str | Marker | UnitSentence, ...]

    def sentences(self) -> list[UnitSentence]:
        """Returns the sentences that are translated."""
        return [part for part in self.parts if isinstance(part, UnitSentence) and part.is_translated]

    def arranged(self, *, spaceless: bool) -> Iterator[str | Marker | UnitSentence]:
        """Yields what the translated unit consists of: sentences to be translated, and what stays as it is.

        `spaceless` omits the spaces between sentences.
        """
        last = len(self.parts) - 1
        for place, part in enumerate(self.parts):
            if not spaceless and self._lacks_space(place):
                yield " "
            if isinstance(part, UnitSentence):
                yield from [part] if part.is_translated else _as_it_is(part)
            elif not (isinstance(part, str) and spaceless and 0 < place < last and part.strip(" ") == ""):
                yield part

    def _lacks_space(self, place: int) -> bool:
        """Returns whether a sentence ends before a part, and the next begins with it, or with tags that it opens.

        Tags may also stand between two parts of one word; between sentences they do if the first is written in a script
        without spaces.
        """
        before = place - 1
        while before >= 0 and _is_tag(self.parts[before], ClosingTag):
            before -= 1
        after = place
        while after < len(self.parts) and _is_tag(self.parts[after], OpeningTag):
            after += 1
        if before < 0 or after == len(self.parts):
            return False
        ended, begun = self.parts[before], self.parts[after]
        if not isinstance(ended, UnitSentence) or not isinstance(begun, UnitSentence):
            return False
        return before + 1 == after or bool(SPACELESS_CHARACTER.match(ended.text[-1]))

    def join(self, translate: Callable[[UnitSentence], list[str | Marker]], *, spaceless: bool) -> Content:
        """Returns the unit with each sentence replaced; `spaceless` omits the spaces between sentences."""
        items: list[str | Marker] = []
        for part in self.arranged(spaceless=spaceless):
            items += translate(part) if isinstance(part, UnitSentence) else [part]
        return _content(items)


def _is_tag(part: str | Marker | UnitSentence, kind: type[OpeningTag | ClosingTag]) -> bool:
    """Returns whether a part is a tag of this kind."""
    return isinstance(part, Marker) and isinstance(part.item, kind)


def divide(unit: Unit, splitter: SentenceSplitter) -> DividedUnit:
    """Cuts a unit into sentences. A pair that reaches over several sentences has its tags between sentences."""
    flat = flatten(unit)
    cuts = [marker.place for marker in flat.markers if isinstance(marker.item, InlineCode) and marker.item.is_break]
    spans = splitter.spans(flat.text, wraps=unit.wraps, cuts=cuts)
    while crossing := _crossing(flat, spans):  # a cut may change the sentences beside it
        cuts += crossing
        spans = splitter.spans(flat.text, wraps=unit.wraps, cuts=cuts)
    parts: list[str | Marker | UnitSentence] = []
    closings = {marker.item.number: marker.place for marker in flat.markers if isinstance(marker.item, ClosingTag)}
    place = number = 0
    for start, end in spans:
        first, last = _inside(flat.markers, closings, number, CutSpan(start, end))
        place = _add_between(parts, flat, flat.markers[number:first], place, start)
        inside = tuple(marker._replace(place=marker.place - start) for marker in flat.markers[first:last])
        parts.append(UnitSentence(flat.text[start:end], inside))
        place, number = end, last
    _add_between(parts, flat, flat.markers[number:], place, len(flat.text))
    return DividedUnit(tuple(parts))


def _add_between(
    parts: list[str | Marker | UnitSentence], flat: FlatText, markers: Sequence[Marker], start: int, end: int
) -> int:
    """Adds the text from `start` to `end`, and the markers in it, to the parts of a unit; returns `end`."""
    for marker in markers:
        if start < marker.place:
            parts.append(flat.text[start : marker.place])
            start = marker.place
        parts.append(marker)
    if start < end:
        parts.append(flat.text[start:end])
    return end


def _crossing(flat: FlatText, spans: Sequence[CutSpan]) -> list[int]:
    """Returns the places of tags inside a sentence whose other tag is outside of it."""
    starts = [span.start for span in spans]
    cuts = []
    for pair in _pairs(flat.markers):
        for place in pair:
            number = bisect.bisect_left(starts, place) - 1  # of the last sentence that begins before the tag
            if number < 0 or place >= spans[number].end:
                continue
            if not all(spans[number].start <= other <= spans[number].end for other in pair):
                cuts.append(place)
    return cuts


def _pairs(markers: Sequence[Marker]) -> list[tuple[int, int]]:
    """Returns the places of the opening and the closing tag of each pair."""
    path, pairs = [], []
    for marker in markers:
        if isinstance(marker.item, OpeningTag):
            path.append(marker.place)
        elif isinstance(marker.item, ClosingTag):
            pairs.append((path.pop(), marker.place))
    return pairs


def _inside(markers: Sequence[Marker], closings: dict[int, int], number: int, span: CutSpan) -> tuple[int, int]:
    """Returns the range of the markers, from `number` on, that move with the words of a sentence.

    `closings` has the places of closing tags by their pairs. Codes at the ends of the sentence, and pairs that enclose
    the whole sentence, stay outside.
    """
    start, end = span
    first = number
    while first < len(markers) and (
        markers[first].place < start
        or (markers[first].place == start and _is_outside_at_start(markers[first].item, closings, start, end))
    ):
        first += 1
    last = first
    while last < len(markers) and markers[last].place < end:
        last += 1
    open_tags = sum(isinstance(marker.item, OpeningTag) for marker in markers[first:last]) - sum(
        isinstance(marker.item, ClosingTag) for marker in markers[first:last]
    )
    while open_tags > 0:  # tags that end where the sentence ends, after words that are outside of them
        open_tags += isinstance(markers[last].item, OpeningTag) - isinstance(markers[last].item, ClosingTag)
        last += 1
    return first, last


def _is_outside_at_start(item: MarkerItem, closings: dict[int, int], start: int, end: int) -> bool:
    """Returns whether a marker at the start of a sentence stays before the sentence."""
    return not isinstance(item, OpeningTag) or not start < closings[item.number] < end


def _as_it_is(sentence: UnitSentence) -> list[str | Marker]:
    """Returns the text of a sentence with its markers at their places."""
    items: list[str | Marker] = []
    place = 0
    for marker in sentence.markers:
        items += [sentence.text[place : marker.place], marker]
        place = marker.place
    return [*items, sentence.text[place:]]


def _content(items: Sequence[str | Marker]) -> Content:
    """Returns text and markers as the content of a unit, with the spaces that codes need."""
    content: list[InlineItem] = []
    text, space = "", ""
    for item in items:
        if isinstance(item, str):
            needs_space = space and item and not item[0].isspace()
            text += (space if needs_space else "") + item
            space = "" if item else space
            continue
        if item.is_code and item.before and not (text or _last_text(content))[-1:].isspace():
            text += item.before if (text or content) else ""
        space = item.after if item.is_code else space
        if isinstance(item.item, Placeholder):
            text += item.item.text
        else:
            content += [text, item.item] if text else [item.item]
            text = ""
    return tuple(part for part in [*content, text] if part != "")


def _last_text(content: Sequence[InlineItem]) -> str:
    """Returns the last text of a content that ends with tags or points; nothing after another code."""
    for item in reversed(content):
        if isinstance(item, str):
            return item
        if not takes_no_room(item):
            break
    return ""
