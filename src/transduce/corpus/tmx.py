"""Reads translation memories (TMX 1.4, Localization Industry Standards Association 2005) unit by unit.

A unit (`tu`) has one variant (`tuv`) for each language. A variant has a segment (`seg`) of text, which may contain
inline codes of the document's layout.
"""

from collections.abc import Iterator
from io import BufferedIOBase
from xml.etree.ElementTree import Element, ParseError, iterparse

from transduce.corpus.entries import Languages

__all__ = ["read_units"]

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

INLINE_CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements whose content is code of another program, such as tags of a web page, and not text."""


def read_units(file: BufferedIOBase, languages: Languages, name: str) -> Iterator[tuple[str, str]]:
    """Yields source and target of every unit; a missing side is empty, so that units keep their numbers.

    A variant of a region counts as its language: "en-GB" as "en". Raises ValueError for a file that is not TMX, and at
    the end if no unit has text in both languages.
    """
    all_languages: set[str] = set()
    has_whole_unit = False
    events = _parse(file, name)
    _, root = next(events)
    if _local_name(root.tag) != "tmx":
        raise ValueError(f"{name} is no TMX: its outermost element is <{root.tag}>")
    for event, element in events:
        if event == "end" and _local_name(element.tag) == "tu":
            variants = [(_language(part), part) for part in element if _local_name(part.tag) == "tuv"]
            all_languages.update(language for language, _ in variants if language)
            try:
                unit = _segment(variants, languages[0]), _segment(variants, languages[1])
            except RecursionError:
                raise ValueError(f"{name}: the elements of a segment are nested too deeply") from None
            has_whole_unit = has_whole_unit or all(unit)
            yield unit
            for part in root:  # the parser adds each unit to the body, which would keep all units in memory
                if _local_name(part.tag) == "body":
                    part.clear()
    if not has_whole_unit:
        listed = ", ".join(sorted(all_languages)) or "no language"
        raise ValueError(f"{name} has no unit with text in both {languages[0]} and {languages[1]}; it has {listed}")


def _parse(file: BufferedIOBase, name: str) -> Iterator[tuple[str, Element]]:
    """Yields the start and the end of each element; raises ValueError where the file cannot be parsed."""
    events = iterparse(file, events=("start", "end"))
    while True:
        try:
            event = next(events, None)
        except ParseError as error:
            raise ValueError(
                f"{name} is not well-formed XML: {error}; mend that place, or export the file again"
            ) from None
        except (LookupError, ValueError) as error:
            raise ValueError(
                f"{name} cannot be read: {error}; convert it with `iconv -t UTF-8`, and declare UTF-8 in its first line"
            ) from None
        if event is None:
            return
        yield event


def _local_name(tag: str) -> str:
    """Returns a tag without its namespace."""
    return tag.rpartition("}")[2]


def _language(variant: Element) -> str:
    """Returns the language code of a variant; before version 1.2 of TMX the attribute is `lang`."""
    return variant.get(LANGUAGE) or variant.get("lang") or ""


def _segment(variants: list[tuple[str, Element]], language: str) -> str:
    """Returns the first text in `language`, variants of its regions last; an empty string where there is none."""
    code = _normalise(language)
    exact = [part for variant_code, part in variants if _normalise(variant_code) == code]
    regional = [part for variant_code, part in variants if _normalise(variant_code).startswith(f"{code}-")]
    texts = (
        "".join(_texts(part)) for variant in exact + regional for part in variant if _local_name(part.tag) == "seg"
    )
    return next((text for text in texts if text.strip()), "")


def _normalise(code: str) -> str:
    """Returns a language code in lower case with hyphens."""
    return code.lower().replace("_", "-")


def _texts(element: Element) -> Iterator[str]:
    """Yields the text of a segment in order, without inline codes."""
    yield element.text or ""
    for part in element:
        if _local_name(part.tag) not in INLINE_CODES:
            yield from _texts(part)
        yield part.tail or ""
