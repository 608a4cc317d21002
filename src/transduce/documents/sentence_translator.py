"""Translates the units of a document sentence by sentence, with a single call of the translator for all sentences."""

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple

from transduce.documents.document import Content, Unit
from transduce.documents.segments import Marker, UnitSentence, divide
from transduce.documents.sentence_splitter import SentenceSplitter, is_spaceless
from transduce.documents.tag_placement import place_markers
from transduce.text.repetition import is_loop
from transduce.text.sentence_pieces import SentencePieces
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.translation.alignment import aligned_words
from transduce.translation.results import Translation
from transduce.translation.translator import Translator

MAX_SENTENCE_TOKENS = 200  # longer sentences are rare in training data, and models drop parts of them


class SentenceTranslator(NamedTuple):
    """The functions and settings of a model that document translation needs.

    `align` returns the word alignment of a sentence and its translation as pairs (source word, target word). It is None
    if the model has no attention weights. `codes` are the language codes that the source vocabulary contains. If a unit
    begins with one of them, this code is put before each of its sentences, because the model needs it there.
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
        """The splitter that divides source text into sentences of at most `max_tokens` tokens."""
        return SentenceSplitter(self.source_language, self.count_tokens, self.max_tokens)


class TranslatedUnits(NamedTuple):
    """The translations of units in `contents`, and the translation of each source sentence in `sentences`."""

    contents: list[Content]
    placed_by_position: int  # number of sentences whose tags were placed without an alignment
    sentences: Mapping[str, Translation]

    def count_loops(self) -> int:
        """Returns the number of distinct sentences whose translation repeats the same text over and over."""
        return sum(is_loop(translation.text, source) for source, translation in self.sentences.items())


def translate_units(units: Sequence[Unit], translator: SentenceTranslator) -> TranslatedUnits:
    """Translates units. Identical sentences are translated only once.

    The translation of a unit contains all of its tags and placeholders. Only sentences that contain tags or
    placeholders between their words are aligned with their translations.
    """
    codes = translator.codes
    coded = [split_code(unit, codes) for unit in units]
    divided = [(code, divide(unit, translator.splitter)) for code, unit in coded]
    sentences = ((code, sentence.source) for code, unit in divided for sentence in unit.sentences())
    sources = list(dict.fromkeys(add_code(code, sentence, codes) for code, sentence in sentences))
    translations = dict(zip(sources, translator.translate(sources), strict=True))
    alignments: dict[str, list[tuple[int, int]]] = {}
    placed_by_position = 0

    def translated(code: str, sentence: UnitSentence) -> list[str | Marker]:
        """Returns the translation of a sentence with its markers. Counts the sentences that lack an alignment."""
        nonlocal placed_by_position
        source = add_code(code, sentence.source, codes)
        translation = translations[source]
        if not sentence.markers:
            return [sentence.text if translation.text == sentence.source else translation.text]
        alignment = None
        if translator.align is None or not translation.text:
            placed_by_position += 1
        else:
            if source not in alignments:
                alignments[source] = translator.align(source, translation)
            alignment = alignments[source]
            if source != sentence.source:  # the first word is the code
                alignment = [(word - 1, target) for word, target in alignment if word > 0]
        return place_markers(sentence.source, sentence.markers, translation.text, alignment)

    spaceless = is_spaceless(translator.target_language)
    contents = [unit.join(partial(translated, code), spaceless=spaceless) for code, unit in divided]
    return TranslatedUnits(contents, placed_by_position, translations)


def sentence_translator(
    translator: Translator,
    translate_lines: Callable[[list[str]], list[list[Translation]]] | None = None,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
) -> SentenceTranslator:
    """Returns the functions and settings of a translator that document translation needs.

    Words can be aligned only with the `Translator` of a Transformer. If `translate_lines` is given, it is called
    instead of the method of the translator, for example to apply a different search or a glossary.
    """

    def translate(sentences: list[str]) -> list[Translation]:
        return [best[0] for best in (translate_lines or translator.translate_lines)(sentences)]

    def count_tokens(sentences: Sequence[str]) -> list[int]:
        return [len(tokens) for tokens in translator.source.encode(list(sentences))]

    codes = codes_of(translator.source)
    max_tokens = min(MAX_SENTENCE_TOKENS, translator.max_line_tokens - len(translator.source_tags) - bool(codes))
    align = None
    if has_alignments(translator):

        def align(source: str, best: Translation) -> list[tuple[int, int]]:
            return aligned_words(translator.explain(source, best.tokens))

    return SentenceTranslator(translate, align, count_tokens, source_language, target_language, max_tokens, codes)


def has_alignments(translator: Translator) -> bool:
    """Returns whether a translator can provide the attention weights that word alignment needs."""
    try:
        translator.check_explicable()
    except ValueError:
        return False
    return True


def codes_of(vocabulary: TokenVocabulary) -> frozenset[str]:
    """Returns the language codes, such as `>>deu<<`, in a source vocabulary. Only imported models have any."""
    if not isinstance(vocabulary, SentencePieces):
        return frozenset()
    return frozenset(subword for subword in vocabulary.vocabulary if subword[:2] == ">>" and subword[-2:] == "<<")


def split_code(unit: Unit, codes: Set[str]) -> tuple[str, Unit]:
    """Splits off the language code at the beginning of a unit, with the white space after it.

    Returns the code and the rest of the unit, or an empty string and the unchanged unit if it begins with no code.
    """
    index = next((index for index, item in enumerate(unit.content) if isinstance(item, str) and item.strip()), None)
    text = "" if index is None else unit.content[index]
    assert isinstance(text, str)
    code = _leading_code(text.lstrip(), codes)
    if index is None or not code:
        return "", unit
    before, _, after = text.partition(code)
    stripped = before + after.lstrip()
    items = (stripped,) if stripped else ()
    return code, unit._replace(content=(*unit.content[:index], *items, *unit.content[index + 1 :]))


def add_code(code: str, sentence: str, codes: Set[str]) -> str:
    """Returns a sentence with the language code of its unit before it, unless it already begins with a code."""
    return f"{code} {sentence}" if code and not _leading_code(sentence, codes) else sentence


def _leading_code(text: str, codes: Set[str]) -> str:
    """Returns the language code at the beginning of a text, or an empty string if there is none."""
    code = text[: text.find("<<") + 2]
    return code if code in codes else ""
