"""Translators without a model: identity, and reversed word order with upper case."""

from collections.abc import Sequence

from transduce.documents.sentence_translator import SentenceTranslator
from transduce.translation.results import Translation


def result(text: str) -> Translation:
    return Translation(text, -1.0, -1.0, [])


def words_of(lines: Sequence[str]) -> list[int]:
    return [len(line.split()) for line in lines]


def same(max_tokens: int = 40) -> SentenceTranslator:
    """Returns each sentence as it is."""
    return SentenceTranslator(
        lambda lines: [result(line) for line in lines],
        lambda source, best: [(n, n) for n in range(len(source.split()))],
        words_of,
        "en",
        "de",
        max_tokens,
    )


def reverse(line: str) -> str:
    """Reverses the words; the punctuation at the end stays there."""
    end = line[-1:] if line[-1:] in ".!?:" else ""
    return " ".join(line.removesuffix(end).upper().split()[::-1]) + end


def reversing(*, aligned: bool = True) -> SentenceTranslator:
    """Translates into upper case, backwards."""

    def align(source: str, best: Translation) -> list[tuple[int, int]]:
        words = len(best.text.split())
        return [(words - 1 - n, n) for n in range(words)]

    return SentenceTranslator(
        lambda lines: [result(reverse(line)) for line in lines], align if aligned else None, words_of, "en", "de", 40
    )
