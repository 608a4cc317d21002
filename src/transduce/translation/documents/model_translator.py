"""Connects the translation of documents with a translator of lines."""

import functools
from collections.abc import Callable, Sequence

from transduce.translation.alignment import aligned_words
from transduce.translation.documents.language_codes import codes_of
from transduce.translation.documents.translate_document import MAX_SENTENCE_TOKENS, SentenceTranslator
from transduce.translation.results import Translation
from transduce.translation.translator import Translator

__all__ = ["sentence_translator"]


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
    align = functools.partial(_align, translator) if _has_alignments(translator) else None
    return SentenceTranslator(translate, align, count_tokens, source_language, target_language, max_tokens, codes)


def _has_alignments(translator: Translator) -> bool:
    """Returns whether a translator has attention weights to align words by."""
    try:
        translator.check_explicable()
    except ValueError:
        return False
    return True


def _align(translator: Translator, source: str, best: Translation) -> list[tuple[int, int]]:
    """Returns the aligned words of a sentence and its translation."""
    return aligned_words(translator.explain(source, best.tokens))
