"""Codes of the target language at the beginning of a text, such as `>>fra<<` of OPUS-MT's models of several targets."""

from collections.abc import Set
from typing import NamedTuple

from transduce.documents.units import Unit
from transduce.text.sentence_pieces import SentencePieces
from transduce.text.token_vocabulary import TokenVocabulary

__all__ = ["CodedUnit", "add_code", "codes_of", "split_code"]


class CodedUnit(NamedTuple):
    """A unit without the code with which it began, and the code; an empty string without one."""

    code: str
    unit: Unit


def codes_of(vocabulary: TokenVocabulary) -> frozenset[str]:
    """Returns the codes that a source vocabulary has; only imported models have some."""
    if not isinstance(vocabulary, SentencePieces):
        return frozenset()
    return frozenset(subword for subword in vocabulary.vocabulary if subword[:2] == ">>" and subword[-2:] == "<<")


def split_code(unit: Unit, codes: Set[str]) -> CodedUnit:
    """Takes the code off the first text of a unit, with the white space after the code."""
    place = next((place for place, item in enumerate(unit.content) if isinstance(item, str) and item.strip()), None)
    text = "" if place is None else unit.content[place]
    assert isinstance(text, str)
    code = _leading_code(text.lstrip(), codes)
    if place is None or not code:
        return CodedUnit("", unit)
    before, _, after = text.partition(code)
    stripped = before + after.lstrip()
    items = (stripped,) if stripped else ()
    return CodedUnit(code, unit._replace(content=(*unit.content[:place], *items, *unit.content[place + 1 :])))


def add_code(code: str, sentence: str, codes: Set[str]) -> str:
    """Returns a sentence with the code of its unit before it, unless the sentence begins with a code of its own."""
    return f"{code} {sentence}" if code and not _leading_code(sentence, codes) else sentence


def _leading_code(text: str, codes: Set[str]) -> str:
    """Returns the code with which a text begins; an empty string without one."""
    code = text[: text.find("<<") + 2]
    return code if code in codes else ""
