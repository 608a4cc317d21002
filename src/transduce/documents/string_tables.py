"""Reads and writes JSON and YAML files.

Values that are strings are translated. Keys and all other bytes of the file are kept.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from transduce.documents.document import Content, SpanDocument, Unit, has_letters, plain
from transduce.documents.inline_tags import PairedContent, string_content

if TYPE_CHECKING:
    from ruamel.yaml import YAML

# An unclosed string matches up to the end of the file, so that not every quote after it starts another search.
_JSON_STRING = re.compile(r'(?s)"(?:[^"\\]|\\.)*+(?:"(?P<colon>\s*:)?|\\?\Z)')
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_YAML_1_1_VALUE = re.compile(r"(?i)y|n|yes|no|on|off|[-+\d_:.]+")  # Booleans and numbers without quotes
# Words that begin with a letter. YAML always reads them as a string, unless they are null, true or false.
_WORDS = re.compile(r"(?!(?i:null|true|false)\Z)[^\W\d_][\w .;()/-]*")
_HALF_PAIR = re.compile("[\ud800-\udfff]")


MAX_YAML_VALUES = 100_000  # including keys


class StringPlace(NamedTuple):
    """A string in a file: its offsets, its value, and a function that formats a new value in the same style."""

    start: int
    end: int
    value: str
    write: Callable[[str], str]


class StringTable(SpanDocument):
    """A text file in which the strings at known offsets are translated."""

    def __init__(self, text: str, places: Sequence[StringPlace], encode: Callable[[str], bytes]) -> None:
        super().__init__(text, encode)
        for start, end, value, write in places:
            paired = string_content(value)
            if has_letters(plain(paired.content)) and (half := _HALF_PAIR.search(value)):
                number = text.count("\n", 0, start) + 1
                raise ValueError(
                    f"line {number} has a string with half a surrogate pair, \\u{ord(half.group()):04x}; "
                    "write the character itself"
                )
            self.add(start, end, Unit(paired.content), partial(_write_string, paired, write))


def _write_string(paired: PairedContent[str], write: Callable[[str], str], content: Content) -> str:
    return write("".join(paired.with_payloads(content)))


class JsonDocument(StringTable):
    """A JSON file whose string values are translated."""

    def __init__(self, text: str, encode: Callable[[str], bytes]) -> None:
        try:
            json.loads(text)
        except RecursionError:
            raise ValueError("damaged JSON: it is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"damaged JSON: {error}") from None
        write = partial(json.dumps, ensure_ascii=False)
        values = [match for match in _JSON_STRING.finditer(text) if not match["colon"]]  # a key has a colon after it
        places = [StringPlace(match.start(), match.end(), json.loads(match.group()), write) for match in values]
        super().__init__(text, places, encode)


class _TooManyValuesError(Exception):
    """Raised when a YAML file has more than `MAX_YAML_VALUES` keys and values."""


class YamlDocument(StringTable):
    """A YAML file whose string values are translated.

    Comments and anchors are kept. A value also keeps its style, unless this style cannot represent the translation.
    """

    def __init__(self, text: str, encode: Callable[[str], bytes]) -> None:
        from ruamel.yaml import YAML
        from ruamel.yaml.composer import Composer
        from ruamel.yaml.error import YAMLError

        class BoundedComposer(Composer):
            """Limits the number of values, because even one of 2 bytes takes about 40 µs and 800 bytes of memory."""

            count = 0

            def compose_node(self, parent: object, index: object) -> object:
                self.count += 1
                if self.count > MAX_YAML_VALUES:
                    raise _TooManyValuesError
                return super().compose_node(parent, index)

        places: list[StringPlace] = []
        # A composer counts the values for the lifetime of its YAML object. `_is_plain` parses each translation, so it
        # gets an object without a limit.
        bounded, unbounded = YAML(typ="safe", pure=True), YAML(typ="safe", pure=True)
        bounded.Composer = BoundedComposer
        try:
            for root in bounded.compose_all(text):
                places += _yaml_strings(root, text, unbounded)
        except _TooManyValuesError:
            raise ValueError(
                f"the YAML has more than {MAX_YAML_VALUES:,} keys and values; split it into several files"
            ) from None
        except RecursionError:
            raise ValueError("damaged YAML: it is nested too deeply") from None
        except (YAMLError, ValueError) as error:
            raise ValueError(f"damaged YAML: {' '.join(str(error).split())}") from None
        super().__init__(text, sorted(places), encode)


def _yaml_strings(root: Any, text: str, yaml: "YAML") -> Iterator[StringPlace]:
    """Yields the places of all string values in the tree under `root`.

    The place of a value does not include its anchor and its tag. A value with aliases is yielded only once.
    """
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "mapping":
            waiting += [value for _, value in node.value]
        elif node.id == "sequence":
            waiting += node.value
        elif str(node.tag) == "tag:yaml.org,2002:str" and (node.style or not _YAML_1_1_VALUE.fullmatch(node.value)):
            start, end = node.start_mark.index, node.end_mark.index
            properties = _PROPERTIES.match(text, start, end)
            start = properties.end() if properties and not node.style else start
            if node.style and (mark := text.find(node.style, start, end)) >= 0:
                start = mark
            write = partial(_yaml_scalar, style=node.style, raw=text[start:end], yaml=yaml)
            yield StringPlace(start, end, node.value, write)


def _yaml_scalar(value: str, style: str | None, raw: str, yaml: "YAML") -> str:
    """Returns a string as a YAML scalar in the style of `raw`, or in double quotes if that style cannot express it."""
    quoted = json.dumps(value, ensure_ascii=False)
    if style == "'" and "\n" not in value:
        return "'" + value.replace("'", "''") + "'"
    if style in ("|", ">"):
        return _yaml_block(value, style, raw) or quoted + raw[len(raw.rstrip()) :]
    if style is None and _is_plain(value, yaml):
        return value
    return quoted


def _yaml_block(value: str, style: str, raw: str) -> str | None:
    """Returns a string as a block scalar with the header and the indentation of `raw`.

    Returns None if such a block scalar cannot represent the string.
    """
    header, _, body = raw.partition("\n")
    indentation = re.search(r"(?m)^[ ]+(?=\S)", body)
    if indentation is None or re.search(r"\d", header) or value != value.lstrip():
        return None
    end = value.removesuffix("\n")[-1:]
    if "\r" in value or (end.isspace() and end != "\n"):  # a block scalar would lose a space there
        return None
    text = value.rstrip("\n")
    if style == ">":
        if re.search(r"\n[^\S\n]", text):  # lines that begin with a space are not folded
            return None
        text = re.sub(r"\n+", r"\g<0>\n", text)
    lines = text.split("\n")
    trailing = body[len(body.rstrip()) :]
    return "\n".join([header, *(indentation.group() + line if line else "" for line in lines)]) + trailing


def _is_plain(value: str, yaml: "YAML") -> bool:
    """Returns whether both YAML 1.2 and YAML 1.1 read `value` without quotes as the same string in any context."""
    from ruamel.yaml.error import YAMLError

    if "\n" in value or re.search(r"[\[\]{},#&*!|>%@`\"'?]|: |:$|^[-=~.<]|^\s|\s$", value) or not value:
        return False
    if _YAML_1_1_VALUE.fullmatch(value):
        return False
    if _WORDS.fullmatch(value):
        return True
    try:
        return bool(yaml.load(value) == value)
    except (YAMLError, ValueError):  # ValueError: a date with a 13th month, or a number without digits, such as 0x_
        return False
