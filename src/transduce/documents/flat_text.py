"""A unit as text and markers: its tags, codes and placeholders are taken out of the text, and their places kept."""

import re
from typing import NamedTuple

from transduce.documents.placeholders import Placeholder, split_placeholders
from transduce.documents.units import ClosingTag, InlineCode, OpeningTag, Unit

__all__ = ["NO_SPACE_BEFORE", "FlatText", "Marker", "MarkerItem", "flatten", "takes_no_room"]

MarkerItem = OpeningTag | ClosingTag | InlineCode | Placeholder
NO_SPACE_BEFORE = tuple(",.;:!?)]}…»”、。，；：！？")


class Marker(NamedTuple):
    """A tag, a code or a placeholder at an offset of a text, with the white space that stood on its sides."""

    place: int
    item: MarkerItem
    before: str = ""
    after: str = ""

    @property
    def is_code(self) -> bool:
        """Whether this is a code or a placeholder that takes room in the text, and no tag of a pair."""
        return isinstance(self.item, Placeholder) or (isinstance(self.item, InlineCode) and not self.item.is_point)


class FlatText(NamedTuple):
    """The text of a unit, and its markers in order."""

    text: str
    markers: tuple[Marker, ...]


def flatten(unit: Unit) -> FlatText:
    """Takes markers out of a unit.

    A code leaves one space between words, and none before punctuation; a break and a point leave the white space as it
    is.
    """
    items = _split_items(unit)
    texts, markers = list[str](), list[Marker]()  # none of the texts is empty
    length = 0
    after_code = after_break = False
    for place, item in enumerate(items):
        if not isinstance(item, str):
            marker = Marker(length, item)
            if marker.is_code:
                after_code = True
                after_break = after_break or (isinstance(item, InlineCode) and item.is_break)
                marker = Marker(length, item, _space_beside(items, place, -1), _space_beside(items, place, 1))
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
    return FlatText("".join(texts), tuple(markers))


def _split_items(unit: Unit) -> list[str | MarkerItem]:
    """Returns the items of a unit with its placeholders apart, and with spaces for the line ends where it wraps."""
    items = list[str | MarkerItem]()
    last = len(unit.content) - 1
    for place, item in enumerate(unit.content):
        if not isinstance(item, str):
            items.append(item)
            continue
        text = _one_line(item, place == 0, place == last) if unit.wraps else item
        items += split_placeholders(text)
    return items


def _one_line(text: str, is_first: bool, is_last: bool) -> str:
    """Returns a text with one space for each run of white space, except at the ends of a unit."""
    first = len(text) - len(text.lstrip()) if is_first else 0
    last = len(text.rstrip()) if is_last else len(text)
    return text[:first] + re.sub(r"[ \t\r\n]+", " ", text[first:last]) + text[max(first, last) :]


def _space_beside(items: list[str | MarkerItem], place: int, step: int) -> str:
    """Returns the white space beside an item, on the left for a step of −1; what takes no room is passed over."""
    beside = place + step
    while 0 <= beside < len(items) and takes_no_room(items[beside]):
        beside += step
    if not 0 <= beside < len(items) or not isinstance(text := items[beside], str):
        return ""
    return text[len(text.rstrip()) :] if step < 0 else text[: len(text) - len(text.lstrip())]


def takes_no_room(item: str | MarkerItem) -> bool:
    """Returns whether an item is a tag of a pair or a point."""
    return isinstance(item, OpeningTag | ClosingTag) or (isinstance(item, InlineCode) and item.is_point)


def _joined(text: str, following: str, markers: list[Marker], length: int) -> tuple[str, str]:
    """Returns the text before a code and the text after it, such that one space or none is between the two.

    Moves the last of `markers`, which are at `length`, where the text before the code loses its space.
    """
    if text.endswith(" ") and following.startswith(" "):
        return text, following[1:]
    if text.endswith(" ") and following.startswith(NO_SPACE_BEFORE):
        number = len(markers)
        while number and markers[number - 1].place == length:
            number -= 1
            markers[number] = markers[number]._replace(place=length - 1)
        return text[:-1], following
    if text[-1:].isalnum() and following[:1].isalnum():
        return text, " " + following
    return text, following
