"""Takes tags and placeholders out of a unit, cuts its text into sentences, and joins their translations again.

A worked example, an HTML paragraph:

    Stop! <b>Press <i>Enter</i> {n} times.</b> Then save.

1. `flatten` takes out tags and placeholders as markers. A marker records its offset in the text that remains, and a
placeholder also records the white space on its sides. Between "Enter" and "times" one of the two spaces stays:

       text       Stop! Press Enter times. Then save.
       markers    at 6 <b>, at 12 <i>, at 17 </i>, at 18 {n} with a space on both sides, at 24 </b>

2. `divide` cuts the text into sentences, which take their markers along or leave them outside:

       "Stop!"
       " "
       <b>                     encloses the whole sentence, so it stays outside and need not be aligned
       "Press Enter times."    with its markers, now at 6 <i>, at 11 </i>, at 12 {n}
       </b>
       " "
       "Then save."

3. Each sentence is translated, and `tag_placement` puts the markers inside it into its translation.

4. `DividedUnit.join` puts the parts together again. Languages without spaces between sentences lose the " " parts;
   codes get the white space that they had.

A pair that begins in one sentence and ends in another would tear a translation apart. The text is cut at its tags, so
that the tags come between sentences. `A <b>dog runs. A cat</b> sleeps.` becomes the five parts

    "A"   <b>   "dog runs."   "A cat"   </b>   "sleeps."     (with " " between them)

The model loses the context of "A" and "sleeps.", but every tag stays where it was.
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
    """A tag, a code or a placeholder at an offset of a text, with the white space that was on its sides."""

    offset: int
    item: MarkerItem
    before: str = ""
    after: str = ""

    @property
    def is_code(self) -> bool:
        """Whether this is a placeholder, or a code that takes up space in the text."""
        return isinstance(self.item, Placeholder) or (isinstance(self.item, InlineCode) and not self.item.is_point)


def flatten(unit: Unit) -> tuple[str, tuple[Marker, ...]]:
    """Returns the text of a unit, and its markers in order.

    A code leaves one space between words, and none before punctuation. A break and a point leave the white space as it
    is.
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
    """Returns the items of a unit with placeholders split off; line ends become spaces if the unit wraps."""
    items = list[str | MarkerItem]()
    last = len(unit.content) - 1
    for index, item in enumerate(unit.content):
        if not isinstance(item, str):
            items.append(item)
            continue
        if unit.wraps:  # one space for each run of white space, except at the ends of the unit
            first = len(item) - len(item.lstrip()) if index == 0 else 0
            end = len(item.rstrip()) if index == last else len(item)
            item = item[:first] + re.sub(r"[ \t\r\n]+", " ", item[first:end]) + item[max(first, end) :]
        items += split_placeholders(item)
    return items


def _space_beside(items: list[str | MarkerItem], index: int, step: int) -> str:
    """Returns the white space next to an item, on its left if `step` is −1; skips items that take up no space."""
    beside = index + step
    while 0 <= beside < len(items) and takes_no_room(items[beside]):
        beside += step
    if not 0 <= beside < len(items) or not isinstance(text := items[beside], str):
        return ""
    return text[len(text.rstrip()) :] if step < 0 else text[: len(text) - len(text.lstrip())]


def takes_no_room(item: str | MarkerItem) -> bool:
    """Whether an item is a tag of a pair or a point."""
    return isinstance(item, OpeningTag | ClosingTag) or (isinstance(item, InlineCode) and item.is_point)


def _joined(text: str, following: str, markers: list[Marker], length: int) -> tuple[str, str]:
    """Returns the text before a code and the text after it, with one space or none left between them.

        "See ", " dogs"    "See ", "dogs"     one of two spaces is left
        "See ", ", dogs"   "See", ", dogs"    none before punctuation
        "See", "dogs"      "See", " dogs"     one where words would run together

    Moves the last of `markers`, which are at `length`, if the text before the code loses its space.
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
    """Yields the text from `start` to `end` with the markers at their offsets; no yielded text is empty."""
    for marker in markers:
        if start < marker.offset:
            yield text[start : marker.offset]
            start = marker.offset
        yield marker
    if start < end:
        yield text[start:end]


class UnitSentence(NamedTuple):
    """A sentence of a unit: its text, and the markers inside it, at offsets in the text."""

    text: str
    markers: tuple[Marker, ...]

    @property
    def source(self) -> str:
        """The text on one line, as the model reads it. Each white-space character stays one character, so offsets stay
        valid.
        """
        return "".join(" " if character in "\t\r\n" else character for character in self.text)

    @property
    def is_translated(self) -> bool:
        """Whether there are letters outside placeholders."""
        return has_letters(self.text)

    def as_it_is(self) -> Iterator[str | Marker]:
        """Iterates over the text with the markers at their offsets."""
        return _with_markers(self.text, self.markers, 0, len(self.text))


class DividedUnit(NamedTuple):
    """A unit divided into sentences, with the white space and the markers between them."""

    parts: tuple[str | Marker | UnitSentence, ...]

    def sentences(self) -> list[UnitSentence]:
        """The sentences that have something to translate."""
        return [part for part in self.parts if isinstance(part, UnitSentence) and part.is_translated]

    def arranged(self, *, spaceless: bool) -> Iterator[str | Marker | UnitSentence]:
        """Yields the parts of the translated unit: sentences to translate, and parts that do not change.

        `spaceless` omits the spaces between sentences.
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
        """Whether two sentences that meet before a part, with at most tags between them, need a space.

        Tags can also be in the middle of a word. Two parts with tags between them therefore only need a space if the
        first part ends in a script without spaces.
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
        """Returns the unit, each sentence translated by `translate`; `spaceless` omits the spaces between sentences."""
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
    """Cuts a unit into sentences. If a pair spans several sentences, its tags are put between sentences."""
    text, markers = flatten(unit)
    cuts = [marker.offset for marker in markers if isinstance(marker.item, InlineCode) and marker.item.is_break]
    spans = splitter.spans(text, wraps=unit.wraps, cuts=cuts)
    while crossing := _crossing(markers, spans):  # a cut may change the sentences beside it
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
    """Offsets of tags inside a sentence whose partner is outside it."""
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
            number = bisect.bisect_left(starts, offset) - 1  # of the last sentence that begins before the tag
            if number < 0 or offset >= spans[number].end:
                continue
            if not all(spans[number].start <= other <= spans[number].end for other in pair):
                cuts.append(offset)
    return cuts


def _inside(markers: Sequence[Marker], closings: dict[int, int], number: int, span: CutSpan) -> tuple[int, int]:
    """Returns the range of markers, from `number` on, that stay inside a sentence when it is translated.

    `closings` has the offset of each pair's closing tag. Codes at the ends of the sentence, and pairs around the whole
    sentence, stay outside.
    """
    start, end = span

    def stays_before(marker: Marker) -> bool:
        if marker.offset == start and isinstance(marker.item, OpeningTag):
            return not start < closings[marker.item.number] < end  # it encloses the whole sentence, or nothing
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
    """The last text of content that ends with tags or points; empty if another code follows the text."""
    for item in reversed(content):
        if isinstance(item, str):
            return item
        if not takes_no_room(item):
            break
    return ""
