"""Translation memories (TMX 1.4, Localization Industry Standards Association 2005): units, read one at a time.

A unit has a variant a language, and a variant a segment of text with, perhaps, codes of a layout between its words.
"""

from collections.abc import Iterator
from io import BufferedIOBase
from xml.etree.ElementTree import Element, ParseError, iterparse

from transduce.corpus.entries import Languages

__all__ = ["units"]

Unit = tuple[bytes, bytes]

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements whose content is another program's, such as tags of a web page, and no text."""


def units(file: BufferedIOBase, languages: Languages, name: str) -> Iterator[Unit]:
    """Source and target of every unit, in UTF-8; a side that it lacks is empty, so that units are numbered as they are.

    A variant of a region is one of its language: "en-GB" where "en" is asked for. `ValueError` for what is no TMX, and
    at the end where no unit had both languages.
    """
    met: set[str] = set()
    whole = False
    try:
        events = iterparse(file, events=("start", "end"))
        _, root = next(events)
        if _plain(root.tag) != "tmx":
            raise ValueError(f"{name} is no TMX: its outermost element is <{root.tag}>")
        for event, element in events:
            if event == "end" and _plain(element.tag) == "tu":
                variants = _variants(element)
                met.update(variants)
                unit = _segment(variants, languages[0]), _segment(variants, languages[1])
                whole = whole or all(unit)
                yield unit
                for part in root:  # or all units would stay in memory: the body keeps what it has read
                    part.clear()
    except ParseError as error:
        raise ValueError(f"{name} is no whole XML: {error}") from None
    except RecursionError:
        raise ValueError(f"{name}: a segment has elements nested too deep to be a text") from None
    if not whole:
        held = ", ".join(sorted(met)) or "no units"
        raise ValueError(f"{name} has no unit in both {languages[0]} and {languages[1]}; it has {held}")


def _plain(tag: str) -> str:
    """A tag without its namespace."""
    return tag.rpartition("}")[2]


def _variants(unit: Element) -> dict[str, Element]:
    """The variants by the language that each says, the first of each."""
    found: dict[str, Element] = {}
    for part in unit:
        if _plain(part.tag) == "tuv":
            # "lang" is that of TMX before 1.2.
            found.setdefault(part.get(LANGUAGE) or part.get("lang") or "", part)
    return found


def _segment(variants: dict[str, Element], language: str) -> bytes:
    """The text of the variant in a language, on one line; nothing where there is none."""
    wanted = language.lower().replace("_", "-")
    codes = {code: code.lower().replace("_", "-") for code in variants}
    # The language as it was asked for goes before those of regions.
    fitting = [code for code, plain in codes.items() if plain == wanted or plain.startswith(f"{wanted}-")]
    fitting.sort(key=lambda code: codes[code] != wanted)
    segments = [part for code in fitting for part in variants[code] if _plain(part.tag) == "seg"]
    text = "".join(_texts(segments[0])) if segments else ""
    return " ".join(text.split("\n")).replace("\r", " ").encode()


def _texts(element: Element) -> Iterator[str]:
    """What people read of a segment, in order."""
    yield element.text or ""
    for part in element:
        if _plain(part.tag) not in CODES:
            yield from _texts(part)
        yield part.tail or ""
