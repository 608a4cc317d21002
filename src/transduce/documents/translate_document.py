"""Translates the units of a document: sentence by sentence, all sentences of the document in one call."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from transduce.documents.flat_text import Marker
from transduce.documents.language_codes import add_code, split_code
from transduce.documents.segments import DividedUnit, UnitSentence, divide
from transduce.documents.sentences import SentenceSplitter, is_spaceless
from transduce.documents.tag_placement import place_markers
from transduce.documents.units import Content, Unit
from transduce.text.repetition import is_loop
from transduce.translation.results import Translation

__all__ = ["MAX_SENTENCE_TOKENS", "SentenceTranslator", "TranslatedUnits", "translate_units"]

MAX_SENTENCE_TOKENS = 200  # longer sentences are rare in training data, and models drop parts of them


class SentenceTranslator(NamedTuple):
    """What documents need of a model.

    `align` returns the pairs (source word, target word) of a sentence and its translation; None without attention. A
    text may begin with one of `codes`, which the model needs before each sentence.
    """

    translate: Callable[[list[str]], list[Translation]]
    align: Callable[[str, Translation], list[tuple[int, int]]] | None
    count_tokens: Callable[[Sequence[str]], list[int]]
    source_language: str | None = None
    target_language: str | None = None
    max_tokens: int = MAX_SENTENCE_TOKENS
    codes: Set[str] = frozenset()

    @property
    def splitter(self) -> SentenceSplitter:
        """Splits text into sentences that the model takes."""
        return SentenceSplitter(self.source_language, self.count_tokens, self.max_tokens)


class TranslatedUnits(NamedTuple):
    """Translations of units, and of their sentences."""

    contents: list[Content]
    placed_by_position: int  # sentences with tags that no alignment has placed
    sentences: Mapping[str, Translation]

    def count_loops(self) -> int:
        """Returns how many different sentences have a translation that repeats itself."""
        return sum(is_loop(translation.text, source) for source, translation in self.sentences.items())


def translate_units(units: Sequence[Unit], translator: SentenceTranslator) -> TranslatedUnits:
    """Translates units; equal sentences are translated once.

    A translation has all tags and placeholders of its unit. Alignments are computed for the sentences that have tags or
    placeholders between their words.
    """
    codes = translator.codes
    coded = [split_code(unit, codes) for unit in units]
    divided = [(code, divide(unit, translator.splitter)) for code, unit in coded]
    sentences = ((code, sentence.source) for code, unit in divided for sentence in unit.sentences())
    sources = list(dict.fromkeys(add_code(code, sentence, codes) for code, sentence in sentences))
    translations = dict(zip(sources, translator.translate(sources), strict=True))
    joined = _UnitJoiner(translator, translations)
    contents = [joined.join(code, unit) for code, unit in divided]
    return TranslatedUnits(contents, joined.placed_by_position, translations)


class _UnitJoiner:
    """Puts translated sentences and their markers into units."""

    def __init__(self, translator: SentenceTranslator, translations: dict[str, Translation]) -> None:
        self.translator, self.translations = translator, translations
        self.spaceless = is_spaceless(translator.target_language)
        self.placed_by_position = 0
        self._alignments: dict[str, list[tuple[int, int]]] = {}

    def join(self, code: str, unit: DividedUnit) -> Content:
        """Returns the translated content of a unit whose sentences were translated with `code` before them."""
        return unit.join(lambda sentence: self._sentence(code, sentence), spaceless=self.spaceless)

    def _sentence(self, code: str, sentence: UnitSentence) -> list[str | Marker]:
        """Returns the translation of a sentence with its markers."""
        source = add_code(code, sentence.source, self.translator.codes)
        translation = self.translations[source]
        if not sentence.markers:
            return [sentence.text if translation.text == sentence.source else translation.text]
        alignment = self._align(source, translation)
        if alignment is not None and source != sentence.source:  # the first word is the code
            alignment = [(word - 1, target) for word, target in alignment if word > 0]
        return place_markers(sentence.source, sentence.markers, translation.text, alignment)

    def _align(self, source: str, translation: Translation) -> list[tuple[int, int]] | None:
        """Returns the alignment of a sentence; None where the model has none."""
        if self.translator.align is None or not translation.text:
            self.placed_by_position += 1
            return None
        if source not in self._alignments:
            self._alignments[source] = self.translator.align(source, translation)
        return self._alignments[source]
