"""Splits text into sentences, and splits a sentence that is too long for the model into parts.

In the following example, each word is a token, and a sentence may have at most 6 tokens:

    text      "See Dr. Hu. We walked for hours, and nobody said a word. Good-bye!"
    cuts      sentencex knows the abbreviation:   See Dr. Hu. | We walked … a word. | Good-bye!
    tokens                                        3             11                    1
    _short    11 are too many: cut at the clause end nearest to the middle of the sentence
                                                  We walked for hours, | and nobody said a word.
    spans     (0, 11) (12, 32) (33, 56) (57, 66)

A span consists of offsets instead of a copy of the text, because markers have offsets in the same text. It never begins
or ends with white space. The caller keeps the text between two spans.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transduce.runtime.extras import install_command
from transduce.text.normalisation import normalise

# Scripts without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Chinese characters, and their punctuation.
SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
SPACELESS_CHARACTER = re.compile(f"[{SPACELESS}]")
_SPACELESS_LANGUAGES = {"ja", "zh", "yue", "wuu", "lzh", "th", "lo", "km", "my"}
_SPACELESS_LANGUAGES |= {"jpn", "zho", "chi", "cmn", "tha", "lao", "khm", "mya", "bur"}
_CLAUSE_ENDS = re.compile(r"[;:,–—)،؛、，；：)]\s+|[、，；：]|\s+")
# The three-letter language codes that OPUS-MT models use, mapped to the two-letter codes that sentencex uses.
_TWO_LETTERS = {
    "amh": "am", "ara": "ar", "arm": "hy", "ben": "bn", "bul": "bg", "cat": "ca", "ces": "cs", "cze": "cs",
    "dan": "da", "deu": "de", "dut": "nl", "ell": "el", "eng": "en", "est": "et", "fin": "fi", "fra": "fr",
    "fre": "fr", "ger": "de", "gre": "el", "guj": "gu", "hin": "hi", "hun": "hu", "hye": "hy", "ita": "it",
    "jpn": "ja", "kan": "kn", "kaz": "kk", "kor": "ko", "lav": "lv", "lit": "lt", "mal": "ml", "mar": "mr",
    "mya": "my", "nld": "nl", "nor": "no", "pan": "pa", "pol": "pl", "por": "pt", "ron": "ro", "rum": "ro",
    "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "swe": "sv", "tam": "ta", "tel": "te", "tur": "tr",
    "ukr": "uk", "urd": "ur", "vie": "vi", "zho": "zh", "chi": "zh",
}  # fmt: skip
MOST_CHARACTERS = 5000  # largest number of characters that are passed to sentencex at a time
_MIDDLE = 0.25  # a sentence is split at white space or punctuation at most this share of its length from its middle


class CutSpan(NamedTuple):
    """The start and end offsets of a sentence, or of a part of one, in a text.

    The span neither begins nor ends with white space.
    """

    start: int
    end: int


def is_spaceless(language: str | None) -> bool:
    """Returns whether a language, for example ja or zh-Hans, is written without spaces between sentences."""
    return language is not None and re.split("[-_]", language.lower())[0] in _SPACELESS_LANGUAGES


def load_segment() -> Callable[[str, str], list[str]]:
    """Imports and returns sentencex's `segment(language, text)`; raises ValueError if sentencex is not installed."""
    try:
        from sentencex import segment
    except ImportError:
        raise ValueError(f"sentences are split by sentencex: {install_command('documents')}") from None
    return segment


class SentenceSplitter(NamedTuple):
    """Splits text into sentences with the rules of a language.

    sentencex has rules for about 300 languages, and a fallback for all others. A sentence with more than `max_tokens`
    tokens is split near its middle: at punctuation, or at white space if there is none, or else at any character.
    """

    language: str | None
    count_tokens: Callable[[Sequence[str]], list[int]]
    max_tokens: int

    def spans(self, text: str, *, wraps: bool, cuts: Sequence[int] = ()) -> list[CutSpan]:
        """Returns the spans of the sentences in `text`. The text is also split at the offsets in `cuts`.

        If `wraps` is true, a line break counts as a space; otherwise it ends a sentence.
        """
        segment, code = load_segment(), re.split("[-_]", (self.language or "en").lower())[0]
        rules = _TWO_LETTERS.get(code, code)  # sentencex has rules per language, not per region
        ends = {0, len(text), *cuts}
        if not wraps:
            ends |= {match.start() for match in re.finditer("\n", text)}
        spans: list[CutSpan] = []
        bounds = sorted(ends)
        for start, end in itertools.pairwise(bounds):
            line = re.sub(r"\s", " ", text[start:end])
            offset = start
            for sentence in _sentences(segment, rules, line):
                span = trim(text, offset, offset + len(sentence))
                is_text = bool(normalise(text[span.start : span.end], "source"))
                if offset > start and span.start < span.end and not is_text:
                    spans[-1] = spans[-1]._replace(end=span.end)  # invisible characters alone do not form a sentence
                else:
                    spans.append(span)
                offset += len(sentence)
            assert offset == end, "sentences lack a part of the text"
        return self._short([span for span in spans if span.start < span.end], text)

    def _short(self, spans: list[CutSpan], text: str) -> list[CutSpan]:
        """Splits each span that has too many tokens in two, and repeats this until all spans are short enough."""
        if all(len(text[start:end].encode()) <= self.max_tokens for start, end in spans):
            return spans  # each token has at least one byte
        counts = self.count_tokens([text[start:end] for start, end in spans])
        short: list[CutSpan] = []
        for span, count in zip(spans, counts, strict=True):
            if count <= self.max_tokens or span.end - span.start == 1:
                short.append(span)
                continue
            # Split near the middle, preferably at punctuation, otherwise at white space.
            middle, margin = (span.start + span.end) / 2, (span.end - span.start) * _MIDDLE
            ends = [
                (len(match.group().strip()) == 0, abs(match.end() - middle), match.end())
                for match in _CLAUSE_ENDS.finditer(text, span.start, span.end)
                if span.start < match.end() < span.end and abs(match.end() - middle) <= margin
            ]
            cut = min(ends)[2] if ends else (span.start + span.end) // 2
            halves = [trim(text, span.start, cut), trim(text, cut, span.end)]
            short += self._short([half for half in halves if half.start < half.end], text)
        return short


def _sentences(segment: Callable[[str, str], list[str]], rules: str, line: str) -> Iterator[str]:
    """Yields the sentences of a line. Concatenated, the sentences equal the line.

    At most `MOST_CHARACTERS` characters are passed to sentencex at a time, because the time that it takes grows
    quadratically with the length of a text in which quotes are not closed.
    """
    offset = 0
    while offset < len(line):
        chunk = line[offset : offset + MOST_CHARACTERS]
        sentences = segment(rules, chunk) if chunk.strip() else [chunk]
        if offset + len(chunk) < len(line):  # the last sentence may continue in the next chunk
            sentences = sentences[:-1] or [chunk[: chunk.rfind(" ") + 1] or chunk]
        yield from sentences
        offset += sum(map(len, sentences))


def trim(text: str, start: int, end: int) -> CutSpan:
    """Returns the span of text[start:end] without the white space at its ends."""
    stripped = text[start:end].strip()
    first = start + text[start:end].find(stripped) if stripped else start
    return CutSpan(first, first + len(stripped))
