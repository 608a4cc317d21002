"""Divides a unit into sentences without tags and placeholders, and assembles the translated unit from the translations.

The following example shows the steps for an HTML paragraph:

    Stop! <b>Press <i>Enter</i> {n} times.</b> Then save.

1. `flatten` removes the tags and placeholders from the text and turns them into markers. A marker records its offset in
   the remaining text, and the marker of a placeholder also records the white space on both sides. One of the two
   spaces between "Enter" and "times" is removed as well:

       text       Stop! Press Enter times. Then save.
       markers    at 6 <b>, at 12 <i>, at 17 </i>, at 18 {n} with a space on both sides, at 24 </b>

2. `divide` splits the text into sentences. A sentence contains the markers inside it; all other markers are placed
   between sentences:

       "Stop!"
       " "
       <b>                     encloses the whole sentence, so it stays outside and need not be aligned
       "Press Enter times."    with its markers, now at 6 <i>, at 11 </i>, at 12 {n}
       </b>
       " "
       "Then save."

3. Each sentence is translated, and `tag_placement` inserts the markers of the sentence into its translation.

4. `DividedUnit.join` joins the parts. If the target language is written without spaces between sentences, the " "
   parts are omitted. Codes and placeholders get back the white space that was around them.

If a pair begins in one sentence and ends in another, the text is also split at its two tags, so that they come between
sentences and need not be placed inside a translation. For example, `A <b>dog runs. A cat</b> sleeps.` is split into

    "A"   <b>   "dog runs."   "A cat"   </b>   "sleeps."     (with " " between the texts)

The model translates "A" and "sleeps." without their context, but every tag keeps its place.
"""

import bisect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transduce.documents.document import ClosingTag, Content, InlineCode, InlineItem, OpeningTag, Unit, has_letters
from transduce.documents.placeholders import Placeholder, split_placeholders
from transduce.documents.sentence_splitter import SPACELESS_CHARACTER, CutSpan, SentenceSplitter

MarkerItem = OpeningTag | ClosingTag | InlineCode | Placeholder
NO_SPACE_BEFORE = tuple(",.;:!?)]}…»”、。，；：！？")


class Marker(NamedTuple):
    """A tag, a code or a placeholder at an offset in a text, with the white space that was before and after it."""

    offset: int
    item: MarkerItem
    before: str = ""
    after: str = ""

    @property
    def is_code(self) -> bool:
        """Whether the item is a placeholder, or a code that takes up space in the text."""
        return isinstance(self.item, Placeholder) or (isinstance(self.item, InlineCode) and not self.item.is_point)


def flatten(unit: Unit) -> tuple[str, tuple[Marker, ...]]:
    """Returns the text of a unit without its tags, codes and placeholders, and their markers in order.

    Where a code or a placeholder is removed, one space is left between words and none before punctuation. The white
    space around breaks and points is not changed.
    """
    items = _split_items(unit)
    texts, markers = list[str](), list[Marker]()  # none of the texts is empty
    length = 0
    after_code = after_break = False
    for index, item in enumerate(items):
        if not isinstance(item, str):
            marker = Marker(length, item)
            if marker.is_code:
                after_code = True
                after_break = after_break or (isinstance(item, InlineCode) and item.is_break)
                marker = Marker(length, item, _space_beside(items, index, -1), _space_beside(items, index, 1))
            markers.append(marker)
            continue
        before = texts[-1] if texts else ""
        if after_code and not after_break:
            joined, item = _joined(before, item, markers, length)
            if joined != before:
                length -= 1
                texts[-1:] = [joined] if joined else []
        elif unit.wraps and not after_break and before.endswith(" ") and item.startswith(" "):
            item = item[1:]
        texts += [item] if item else []
        length += len(item)
        after_code, after_break = after_code and not item, after_break and not item
    return "".join(texts), tuple(markers)


def _split_items(unit: Unit) -> list[str | MarkerItem]:
    """Returns the items of a unit, with the text split at its placeholders.

    If the unit wraps, each sequence of white space becomes one space, except at the beginning and the end of the unit.
    """
    items = list[str | MarkerItem]()
    last = len(unit.content) - 1
    for index, item in enumerate(unit.content):
        if not isinstance(item, str):
            items.append(item)
            continue
        if unit.wraps:
            first = len(item) - len(item.lstrip()) if index == 0 else 0
            end = len(item.rstrip()) if index == last else len(item)
            item = item[:first] + re.sub(r"[ \t\r\n]+", " ", item[first:end]) + item[max(first, end) :]
        items += split_placeholders(item)
    return items


def _space_beside(items: list[str | MarkerItem], index: int, step: int) -> str:
    """Returns the white space before an item if `step` is −1, or after it if `step` is 1.

    Items that take up no space are skipped.
    """
    beside = index + step
    while 0 <= beside < len(items) and takes_no_room(items[beside]):
        beside += step
    if not 0 <= beside < len(items) or not isinstance(text := items[beside], str):
        return ""
    return text[len(text.rstrip()) :] if step < 0 else text[: len(text) - len(text.lstrip())]


def takes_no_room(item: str | MarkerItem) -> bool:
    """Returns whether an item takes up no space in the text, because it is a tag of a pair or a point."""
    return isinstance(item, OpeningTag | ClosingTag) or (isinstance(item, InlineCode) and item.is_point)


def _joined(text: str, following: str, markers: list[Marker], length: int) -> tuple[str, str]:
    """Returns the texts before and after a code that is removed, with at most one space between them.

        "See ", " dogs"    "See ", "dogs"     one of two spaces is left
        "See ", ", dogs"   "See", ", dogs"    there is no space before punctuation
        "See", "dogs"      "See", " dogs"     a space is added where two words would run together

    If the text before the code loses its space, the `markers` at its end, which have the offset `length`, move back by
    one character.
    """
    if text.endswith(" ") and following.startswith(" "):
        return text, following[1:]
    if text.endswith(" ") and following.startswith(NO_SPACE_BEFORE):
        number = len(markers)
        while number and markers[number - 1].offset == length:
            number -= 1
            markers[number] = markers[number]._replace(offset=length - 1)
        return text[:-1], following
    if text[-1:].isalnum() and following[:1].isalnum():
        return text, " " + following
    return text, following


def _with_markers(text: str, markers: Sequence[Marker], start: int, end: int) -> Iterator[str | Marker]:
    """Yields the text from `start` to `end`, split at the offsets of the markers, and the markers in their places.

    No yielded text is empty.
    """
    for marker in markers:
        if start < marker.offset:
            yield text[start : marker.offset]
            start = marker.offset
        yield marker
    if start < end:
        yield text[start:end]


class UnitSentence(NamedTuple):
    """A sentence of a unit: its text, and the markers inside it, whose offsets count from the start of the sentence."""

    text: str
    markers: tuple[Marker, ...]

    @property
    def source(self) -> str:
        """The text on one line, as the model reads it.

        Each tab or line break is replaced by exactly one space, so that the offsets of the markers remain valid.
        """
        return "".join(" " if character in "\t\r\n" else character for character in self.text)

    @property
    def is_translated(self) -> bool:
        """Whether the sentence has something to translate: letters outside its placeholders."""
        return has_letters(self.text)

    def as_it_is(self) -> Iterator[str | Marker]:
        """Yields the text of the sentence without translating it, with the markers at their offsets."""
        return _with_markers(self.text, self.markers, 0, len(self.text))


class DividedUnit(NamedTuple):
    """A unit divided into sentences. `parts` also contains the white space and the markers between the sentences."""

    parts: tuple[str | Marker | UnitSentence, ...]

    def sentences(self) -> list[UnitSentence]:
        """Returns the sentences that have something to translate."""
        return [part for part in self.parts if isinstance(part, UnitSentence) and part.is_translated]

    def arranged(self, *, spaceless: bool) -> Iterator[str | Marker | UnitSentence]:
        """Yields the parts of the translated unit in order: sentences to translate, and text and markers to keep.

        If `spaceless` is true, the spaces between sentences are omitted. Otherwise, a space is added where two
        sentences need one.
        """
        last = len(self.parts) - 1
        for index, part in enumerate(self.parts):
            if not spaceless and self._lacks_space(index):
                yield " "
            if isinstance(part, UnitSentence):
                yield from [part] if part.is_translated else part.as_it_is()
            elif not (isinstance(part, str) and spaceless and 0 < index < last and part.strip(" ") == ""):
                yield part

    def _lacks_space(self, index: int) -> bool:
        """Returns whether a space must be added before the part at `index`, because two sentences meet there.

        Two adjacent sentences always need a space. If there are tags between them, the split may be in the middle of a
        word. A space is then added only if the first sentence ends with a character of a script without spaces.
        """
        before = index - 1
        while before >= 0 and _is_tag(self.parts[before], ClosingTag):
            before -= 1
        after = index
        while after < len(self.parts) and _is_tag(self.parts[after], OpeningTag):
            after += 1
        if before < 0 or after == len(self.parts):
            return False
        ended, begun = self.parts[before], self.parts[after]
        if not isinstance(ended, UnitSentence) or not isinstance(begun, UnitSentence):
            return False
        return before + 1 == after or bool(SPACELESS_CHARACTER.match(ended.text[-1]))

    def join(self, translate: Callable[[UnitSentence], list[str | Marker]], *, spaceless: bool) -> Content:
        """Returns the content of the translated unit.

        `translate` returns the translation of a sentence with its markers. If `spaceless` is true, the spaces between
        sentences are omitted.
        """
        items: list[str | Marker] = []
        for part in self.arranged(spaceless=spaceless):
            items += translate(part) if isinstance(part, UnitSentence) else [part]
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


def _is_tag(part: str | Marker | UnitSentence, kind: type[OpeningTag | ClosingTag]) -> bool:
    return isinstance(part, Marker) and isinstance(part.item, kind)


def divide(unit: Unit, splitter: SentenceSplitter) -> DividedUnit:
    """Divides a unit into sentences.

    If a pair begins in one sentence and ends in another, the text is also split at its tags.
    """
    text, markers = flatten(unit)
    cuts = [marker.offset for marker in markers if isinstance(marker.item, InlineCode) and marker.item.is_break]
    spans = splitter.spans(text, wraps=unit.wraps, cuts=cuts)
    while crossing := _crossing(markers, spans):  # repeated, because a cut may change the adjacent sentences
        cuts += crossing
        spans = splitter.spans(text, wraps=unit.wraps, cuts=cuts)
    parts: list[str | Marker | UnitSentence] = []
    closings = {marker.item.number: marker.offset for marker in markers if isinstance(marker.item, ClosingTag)}
    offset = number = 0
    for start, end in spans:
        first, last = _inside(markers, closings, number, CutSpan(start, end))
        parts += _with_markers(text, markers[number:first], offset, start)
        inside = tuple(marker._replace(offset=marker.offset - start) for marker in markers[first:last])
        parts.append(UnitSentence(text[start:end], inside))
        offset, number = end, last
    parts += _with_markers(text, markers[number:], offset, len(text))
    return DividedUnit(tuple(parts))


def _crossing(markers: Sequence[Marker], spans: Sequence[CutSpan]) -> list[int]:
    """Returns the offsets of the tags that are inside a sentence while the other tag of their pair is outside it."""
    path, pairs = list[int](), list[tuple[int, int]]()  # the offsets of both tags of each pair
    for marker in markers:
        if isinstance(marker.item, OpeningTag):
            path.append(marker.offset)
        elif isinstance(marker.item, ClosingTag):
            pairs.append((path.pop(), marker.offset))
    starts = [span.start for span in spans]
    cuts = []
    for pair in pairs:
        for offset in pair:
            number = bisect.bisect_left(starts, offset) - 1  # the last sentence that begins before the tag
            if number < 0 or offset >= spans[number].end:
                continue
            if not all(spans[number].start <= other <= spans[number].end for other in pair):
                cuts.append(offset)
    return cuts


def _inside(markers: Sequence[Marker], closings: dict[int, int], number: int, span: CutSpan) -> tuple[int, int]:
    """Returns the range of indices, from `number` on, of the markers that are inside the sentence `span`.

    Codes at the beginning or the end of the sentence, and pairs around the whole sentence, are not included. `closings`
    maps the number of each pair to the offset of its closing tag.
    """
    start, end = span

    def stays_before(marker: Marker) -> bool:
        if marker.offset == start and isinstance(marker.item, OpeningTag):
            return not start < closings[marker.item.number] < end  # the pair encloses the whole sentence, or nothing
        return marker.offset <= start

    first = number
    while first < len(markers) and stays_before(markers[first]):
        first += 1
    last = first
    while last < len(markers) and markers[last].offset < end:
        last += 1
    open_tags = sum(isinstance(marker.item, OpeningTag) for marker in markers[first:last]) - sum(
        isinstance(marker.item, ClosingTag) for marker in markers[first:last]
    )
    while open_tags > 0:  # closing tags at the end of the sentence, whose pairs begin inside it
        open_tags += isinstance(markers[last].item, OpeningTag) - isinstance(markers[last].item, ClosingTag)
        last += 1
    return first, last


def _last_text(content: Sequence[InlineItem]) -> str:
    """Returns the last text of `content`, ignoring tags and points after it; empty if another code follows the text."""
    for item in reversed(content):
        if isinstance(item, str):
            return item
        if not takes_no_room(item):
            break
    return ""
