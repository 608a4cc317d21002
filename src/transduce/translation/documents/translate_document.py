"""Translates the units of a document: sentence by sentence, all sentences of the document in one call."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from transduce.translation.documents.flat_text import Marker
from transduce.translation.documents.segments import DividedUnit, UnitSentence, divide
from transduce.translation.documents.sentences import SentenceSplitter, is_spaceless
from transduce.translation.documents.tag_placement import place_markers
from transduce.translation.documents.units import Content, Unit
from transduce.translation.results import Translation

__all__ = ["MAX_SENTENCE_TOKENS", "SentenceTranslator", "TranslatedUnits", "translate_units"]

MAX_SENTENCE_TOKENS = 200  # longer sentences are rare in training data, and models drop parts of them


class SentenceTranslator(NamedTuple):
    """What documents need of a model.

    `align` returns the pairs (source word, target word) of a sentence and its translation; None without attention.
    """

    translate: Callable[[list[str]], list[Translation]]
    align: Callable[[str, Translation], list[tuple[int, int]]] | None
    count_tokens: Callable[[Sequence[str]], list[int]]
    source_language: str | None = None
    target_language: str | None = None
    max_tokens: int = MAX_SENTENCE_TOKENS

    @property
    def splitter(self) -> SentenceSplitter:
        """Splits text into sentences that the model takes."""
        return SentenceSplitter(self.source_language, self.count_tokens, self.max_tokens)


class TranslatedUnits(NamedTuple):
    """Translations of units, and how many sentences have tags that no alignment has placed."""

    contents: list[Content]
    placed_by_position: int


def translate_units(units: Sequence[Unit], translator: SentenceTranslator) -> TranslatedUnits:
    """Translates units; equal sentences are translated once.

    A translation has all tags and placeholders of its unit. Alignments are computed for the sentences that have tags or
    placeholders between their words.
    """
    divided = [divide(unit, translator.splitter) for unit in units]
    sources = list(dict.fromkeys(sentence.source for unit in divided for sentence in unit.sentences()))
    translations = dict(zip(sources, translator.translate(sources), strict=True))
    joined = _UnitJoiner(translator, translations)
    return TranslatedUnits([joined.join(unit) for unit in divided], joined.placed_by_position)


class _UnitJoiner:
    """Puts translated sentences and their markers into units."""

    def __init__(self, translator: SentenceTranslator, translations: dict[str, Translation]) -> None:
        self.translator, self.translations = translator, translations
        self.spaceless = is_spaceless(translator.target_language)
        self.placed_by_position = 0
        self._alignments: dict[str, list[tuple[int, int]]] = {}

    def join(self, unit: DividedUnit) -> Content:
        """Returns the translated content of a unit."""
        return unit.join(self._sentence, spaceless=self.spaceless)

    def _sentence(self, sentence: UnitSentence) -> list[str | Marker]:
        """Returns the translation of a sentence with its markers."""
        translation = self.translations[sentence.source]
        if not sentence.markers:
            return [sentence.text if translation.text == sentence.source else translation.text]
        return place_markers(sentence.source, sentence.markers, translation.text, self._align(sentence, translation))

    def _align(self, sentence: UnitSentence, translation: Translation) -> list[tuple[int, int]] | None:
        """Returns the alignment of a sentence; None where the model has none."""
        if self.translator.align is None or not translation.text:
            self.placed_by_position += 1
            return None
        if sentence.source not in self._alignments:
            self._alignments[sentence.source] = self.translator.align(sentence.source, translation)
        return self._alignments[sentence.source]
