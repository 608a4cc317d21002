"""Cuts a text into parts that clients translate one by one."""

import re
from collections.abc import Iterator

from transduce.documents.language_codes import add_code, split_code
from transduce.documents.model_translator import sentence_translator
from transduce.documents.placeholders import Placeholder, split_placeholders
from transduce.documents.segments import UnitSentence, divide
from transduce.documents.sentences import is_spaceless
from transduce.documents.translate_document import SentenceTranslator
from transduce.documents.units import Unit
from transduce.serving.contract import TextPart
from transduce.serving.served_models import ServedDirection

__all__ = ["text_parts"]

LINE_END = re.compile(r"(\r?\n)")


def text_parts(text: str, served: ServedDirection) -> list[TextPart]:
    """Returns the parts of a text, none empty; their translations make up the translation of the text."""
    translator = sentence_translator(served.translator, source_language=served.source, target_language=served.target)
    spaceless = is_spaceless(served.target)
    parts: list[TextPart] = []
    for place, line in enumerate(LINE_END.split(text)):
        if place % 2:
            parts.append(TextPart(text=line, kind="copied"))
        elif line:
            parts += _line_parts(line, translator, spaceless=spaceless)
    return parts


def _line_parts(line: str, translator: SentenceTranslator, *, spaceless: bool) -> Iterator[TextPart]:
    """Yields the parts of a line, with its language code before each sentence.

    A placeholder may move within its line, so a line with placeholders is one part.
    """
    if any(isinstance(item, Placeholder) for item in split_placeholders(line)):
        yield TextPart(text=line, kind="text")
        return
    code, unit = split_code(Unit((line,)), translator.codes)
    for part in divide(unit, translator.splitter).arranged(spaceless=spaceless):
        if isinstance(part, UnitSentence):
            yield TextPart(text=add_code(code, part.text, translator.codes), kind="sentence")
        else:
            assert isinstance(part, str), "a line without placeholders has no marker"
            yield TextPart(text=part, kind="copied")
