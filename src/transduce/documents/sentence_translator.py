"""Translates the units of a document: sentence by sentence, all sentences of the document in one call."""

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
    alignments: dict[str, list[tuple[int, int]]] = {}
    placed_by_position = 0

    def translated(code: str, sentence: UnitSentence) -> list[str | Marker]:
        """Returns the translation of a sentence with its markers."""
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
    """Returns what documents need of a translator. Only a Transformer's `Translator` aligns words.

    `translate_lines` takes the place of that of the translator, with another search or with a glossary.
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
    """Returns whether a translator has attention weights to align words by."""
    try:
        translator.check_explicable()
    except ValueError:
        return False
    return True


def codes_of(vocabulary: TokenVocabulary) -> frozenset[str]:
    """Returns the codes that a source vocabulary has; only imported models have some."""
    if not isinstance(vocabulary, SentencePieces):
        return frozenset()
    return frozenset(subword for subword in vocabulary.vocabulary if subword[:2] == ">>" and subword[-2:] == "<<")


def split_code(unit: Unit, codes: Set[str]) -> tuple[str, Unit]:
    """Returns the code with which a unit begins, and the unit without it; an empty string without one.

    White space after the code goes with it.
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
    """Returns a sentence with the code of its unit before it, unless the sentence begins with a code of its own."""
    return f"{code} {sentence}" if code and not _leading_code(sentence, codes) else sentence


def _leading_code(text: str, codes: Set[str]) -> str:
    """Returns the code with which a text begins; an empty string without one."""
    code = text[: text.find("<<") + 2]
    return code if code in codes else ""
