"""Translation memories (TMX 1.4, Localization Industry Standards Association 2005): units, read one at a time.

A unit has a variant a language, and a variant a segment of text with, perhaps, codes of a layout between its words.
"""

from collections.abc import Iterator
from io import BufferedIOBase
from xml.etree.ElementTree import Element, ParseError, iterparse

from transduce.corpus.entries import Languages

__all__ = ["units"]

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements whose content is another program's, such as tags of a web page, and no text."""


def units(file: BufferedIOBase, languages: Languages, name: str) -> Iterator[tuple[str, str]]:
    """Source and target of every unit; a side that it lacks is empty, so that units are numbered as they stand.

    A variant of a region is one of its language: "en-GB" where "en" is asked for. `ValueError` for what is no TMX, and
    at the end where no unit had text in both languages.
    """
    held: set[str] = set()
    whole = False
    events = _events(file, name)
    _, root = next(events)
    if _plain(root.tag) != "tmx":
        raise ValueError(f"{name} is no TMX: its outermost element is <{root.tag}>")
    for event, element in events:
        if event == "end" and _plain(element.tag) == "tu":
            variants = [(_language(part), part) for part in element if _plain(part.tag) == "tuv"]
            held.update(language for language, _ in variants if language)
            try:
                unit = _segment(variants, languages[0]), _segment(variants, languages[1])
            except RecursionError:
                raise ValueError(f"{name}: a segment has elements nested too deep to be a text") from None
            whole = whole or all(unit)
            yield unit
            for part in root:  # the body keeps what it has read: all units would stay in memory
                if _plain(part.tag) == "body":
                    part.clear()
    if not whole:
        known = ", ".join(sorted(held)) or "no language"
        raise ValueError(f"{name} has no unit with text in both {languages[0]} and {languages[1]}; it has {known}")


def _events(file: BufferedIOBase, name: str) -> Iterator[tuple[str, Element]]:
    """Where elements begin and end; a `ValueError` for what the parser does not take."""
    events = iterparse(file, events=("start", "end"))
    while True:
        try:
            event = next(events, None)
        except ParseError as error:
            raise ValueError(f"{name} is no whole XML: {error}; mend that place, or export it again") from None
        except (LookupError, ValueError) as error:
            raise ValueError(
                f"{name} cannot be read: {error}; convert it with `iconv -t UTF-8`, and say so in its first line"
            ) from None
        if event is None:
            return
        yield event


def _plain(tag: str) -> str:
    """A tag without its namespace."""
    return tag.rpartition("}")[2]


def _language(variant: Element) -> str:
    """The language that a variant says it is in; "lang" is the key of TMX before 1.2."""
    return variant.get(LANGUAGE) or variant.get("lang") or ""


def _segment(variants: list[tuple[str, Element]], language: str) -> str:
    """The text of the first variant in a language that has any, its own before those of its regions; else nothing."""
    wanted = _comparable(language)
    own = [part for code, part in variants if _comparable(code) == wanted]
    regions = [part for code, part in variants if _comparable(code).startswith(f"{wanted}-")]
    texts = ("".join(_texts(part)) for variant in own + regions for part in variant if _plain(part.tag) == "seg")
    return next((text for text in texts if text.strip()), "")


def _comparable(code: str) -> str:
    """A code of a language, however it is written."""
    return code.lower().replace("_", "-")


def _texts(element: Element) -> Iterator[str]:
    """What people read of a segment, in order."""
    yield element.text or ""
    for part in element:
        if _plain(part.tag) not in CODES:
            yield from _texts(part)
        yield part.tail or ""
