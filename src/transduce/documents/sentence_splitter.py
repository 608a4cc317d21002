"""Splits text into sentences, and splits a sentence that is too long for a model into parts.

A worked example with at most 6 tokens, each word a token:

    text      "See Dr. Hu. We walked for hours, and nobody said a word. Good-bye!"
    cuts      sentencex knows the abbreviation:   See Dr. Hu. | We walked … a word. | Good-bye!
    tokens                                        3             11                    1
    _short    11 are too many: cut at the clause end nearest to the middle of the sentence
                                                  We walked for hours, | and nobody said a word.
    spans     (0, 11) (12, 32) (33, 56) (57, 66)

Spans are offsets instead of copies, because markers have offsets in the same text. They never begin or end with white
space; the caller keeps what is between two spans.
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
# Three-letter language codes, as OPUS-MT models use them, with the two-letter codes that sentencex uses.
_TWO_LETTERS = {
    "amh": "am", "ara": "ar", "arm": "hy", "ben": "bn", "bul": "bg", "cat": "ca", "ces": "cs", "cze": "cs",
    "dan": "da", "deu": "de", "dut": "nl", "ell": "el", "eng": "en", "est": "et", "fin": "fi", "fra": "fr",
    "fre": "fr", "ger": "de", "gre": "el", "guj": "gu", "hin": "hi", "hun": "hu", "hye": "hy", "ita": "it",
    "jpn": "ja", "kan": "kn", "kaz": "kk", "kor": "ko", "lav": "lv", "lit": "lt", "mal": "ml", "mar": "mr",
    "mya": "my", "nld": "nl", "nor": "no", "pan": "pa", "pol": "pl", "por": "pt", "ron": "ro", "rum": "ro",
    "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "swe": "sv", "tam": "ta", "tel": "te", "tur": "tr",
    "ukr": "uk", "urd": "ur", "vie": "vi", "zho": "zh", "chi": "zh",
}  # fmt: skip
MOST_CHARACTERS = 5000
_MIDDLE = 0.25  # a part has at least this share of a sentence, if there is white space


class CutSpan(NamedTuple):
    """The range of a sentence, or of a part of one, in a text, without white space at its ends."""

    start: int
    end: int


def is_spaceless(language: str | None) -> bool:
    """Whether a language, for example ja or zh-Hans, is written without spaces between sentences."""
    return language is not None and re.split("[-_]", language.lower())[0] in _SPACELESS_LANGUAGES


def load_segment() -> Callable[[str, str], list[str]]:
    """Imports `segment(language, text)` of sentencex; raises ValueError if the library is not installed."""
    try:
        from sentencex import segment
    except ImportError:
        raise ValueError(f"sentences are split by sentencex: {install_command('documents')}") from None
    return segment


class SentenceSplitter(NamedTuple):
    """Splits text by the rules of a language; sentencex has rules for about 300 languages and a fallback.

    A sentence of more than `max_tokens` tokens is split at punctuation, or else at white space, or else anywhere.
    """

    language: str | None
    count_tokens: Callable[[Sequence[str]], list[int]]
    max_tokens: int

    def spans(self, text: str, *, wraps: bool, cuts: Sequence[int] = ()) -> list[CutSpan]:
        """Returns the ranges of the sentences in `text`, which is also cut at the offsets `cuts`.

        If `wraps`, a line end counts as a space; otherwise it ends a sentence.
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
                    spans[-1] = spans[-1]._replace(end=span.end)  # invisible characters alone are not a sentence
                else:
                    spans.append(span)
                offset += len(sentence)
            assert offset == end, "sentences lack a part of the text"
        return self._short([span for span in spans if span.start < span.end], text)

    def _short(self, spans: list[CutSpan], text: str) -> list[CutSpan]:
        """Cuts spans with too many tokens in two, as often as needed."""
        if all(len(text[start:end].encode()) <= self.max_tokens for start, end in spans):
            return spans  # each token has at least one byte
        counts = self.count_tokens([text[start:end] for start, end in spans])
        short: list[CutSpan] = []
        for span, count in zip(spans, counts, strict=True):
            if count <= self.max_tokens or span.end - span.start == 1:
                short.append(span)
                continue
            # Cut near the middle, at punctuation rather than at a space.
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
    """Yields the sentences of a line, which together are the line; reads `MOST_CHARACTERS` at a time.

    If quotes are not closed, the time that sentencex takes grows with the square of the length.
    """
    offset = 0
    while offset < len(line):
        chunk = line[offset : offset + MOST_CHARACTERS]
        sentences = segment(rules, chunk) if chunk.strip() else [chunk]
        if offset + len(chunk) < len(line):  # the last sentence may continue
            sentences = sentences[:-1] or [chunk[: chunk.rfind(" ") + 1] or chunk]
        yield from sentences
        offset += sum(map(len, sentences))


def trim(text: str, start: int, end: int) -> CutSpan:
    """Range of text[start:end] without the white space at its ends."""
    stripped = text[start:end].strip()
    first = start + text[start:end].find(stripped) if stripped else start
    return CutSpan(first, first + len(stripped))
