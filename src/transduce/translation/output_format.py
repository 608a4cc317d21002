"""Formats translations as plain text, tab-separated values or JSON."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from transduce.runtime.json_text import json_text
from transduce.runtime.memory import is_out_of_memory
from transduce.translation.batching import LineTooLargeError
from transduce.translation.engine import TorchEngine
from transduce.translation.results import Translation
from transduce.translation.translator import Translator

if TYPE_CHECKING:
    from transduce.translation.confidence import Calibration

JSON_KEYS = ("text", "log_probability", "score")  # fields of a translation in the output
WORD = re.compile("[^ ▁]+")  # the words of `words_of_subwords`: other white space is escaped in subwords


class OutputFormat(NamedTuple):
    """Determines what is written for each line, which by default is the text of its best translation."""

    scores: bool = False
    alignments: bool = False
    json: bool = False
    confidence: "Calibration | None" = None
    """Adds columns with the confidence in the translation and the reasons to doubt it.

    JSON output also contains the probability of each word.
    """
    words: bool = False
    """Adds the probability of each word to JSON output, even if there is no calibration."""
    pairs: Literal["backward", "forward"] | None = None
    """Writes sentence pairs for training as two columns, source and target.

    With `backward`, the translation is the source of the pair; with `forward`, it is the target.
    """

    def check(self, translator: Translator) -> None:
        """Raises ValueError if `translator` cannot provide everything that the format needs.

        Alignments require attention weights, and word probabilities require an engine that can score translations.
        """
        has_models = isinstance(translator.engine, TorchEngine)
        if self.alignments and not has_models:
            raise ValueError(
                "--alignments: this engine returns no attention weights; leave out --engine, or --alignments"
            )
        if self.alignments:
            translator.check_explicable()
        if (self.confidence or self.words) and self.json and not has_models:
            raise ValueError("--confidence: this engine scores no words; leave out --engine, or --json")

    def lines(
        self,
        translator: Translator,
        sources: Sequence[str],
        translations: Sequence[Sequence[Translation]],
        lines_before: int = 0,
    ) -> list[str]:
        """Returns the output lines for `sources`, whose translations are given best first.

        `lines_before` is the number of lines that precede `sources` in the whole text. Raises LineTooLargeError if
        there is not enough memory to align a line.
        """
        output = []
        for number, (source, best) in enumerate(zip(sources, translations, strict=True), start=lines_before + 1):
            if self.pairs is not None:
                pair = _cell(best[0].text), _cell(source)
                output.append("\t".join(pair if self.pairs == "backward" else pair[::-1]))
            elif self.json:
                output.append(self._record(translator, number, source, best))
            elif self.scores:
                output += [
                    f"{number}\t{_cell(translation.text)}\t{translation.log_probability:.6f}\t{translation.score:.6f}"
                    for translation in best
                ]
            elif self.confidence is not None:
                confidence, doubts = self.confidence.assess(source, best[0])
                output.append(f"{_cell(best[0].text)}\t{confidence:.3f}\t{','.join(doubts)}")
            elif self.alignments:
                output.append(f"{_cell(best[0].text)}\t{_alignment(translator, number, source, best[0])}")
            else:
                output.append(best[0].text)
        return output

    def _record(self, translator: Translator, number: int, source: str, best: Sequence[Translation]) -> str:
        """Formats the translations of a line as a JSON object."""
        records = [{key: getattr(translation, key) for key in JSON_KEYS} for translation in best]
        aligned = {"alignment": _alignment(translator, number, source, best[0])} if self.alignments else {}
        assessed = self._assessment(translator, source, best[0])
        into = {"target_language": translator.target_language} if translator.target_language else {}
        return json_text({"line": number, **into, "translations": records, **aligned, **assessed}, ensure_ascii=False)

    def _assessment(self, translator: Translator, source: str, best: Translation) -> dict[str, Any]:
        """Returns the confidence, the reasons for doubt and the word probabilities of a translation as JSON fields."""
        record: dict[str, Any] = {}
        if self.confidence is not None:
            record["confidence"], doubts = self.confidence.assess(source, best)
            record["doubts"] = list(doubts)
        if self.confidence is not None or self.words:
            record["words"] = _word_probabilities(translator, source, best)
        return record


def _word_probabilities(translator: Translator, source: str, best: Translation) -> list[list[Any]]:
    """Returns each word of a translation with its probability, the product of the probabilities of its subwords.

    Returns an empty list if the words cannot be matched with the subwords.
    """
    from transduce.translation.alignment import words_of_subwords

    if not best.tokens or not WORD.search(best.text):
        return []
    (source_tokens,) = translator.encode_sources([source])
    (scores,) = translator.score_tokens([(source_tokens, best.tokens)])
    places = words_of_subwords(translator.target.readable_subwords(best.tokens))
    sums = [0.0] * (max(places.values()) + 1)
    for place, word in places.items():
        sums[word] += float(scores[place])
    words = WORD.findall(best.text)
    if len(words) != len(sums):
        return []  # the unknown token of an imported model may hide where words begin
    return [[word, math.exp(total)] for word, total in zip(words, sums, strict=True)]


def _cell(text: str) -> str:
    """Replaces tabs with spaces, because a tab would start a new column."""
    return text.replace("\t", " ")


def _alignment(translator: Translator, number: int, source: str, best: Translation) -> str:
    """Returns the word alignment of a line as pairs of a source and a target word, for example "0-0 1-2".

    Raises LineTooLargeError, which names the line `number`, if there is not enough memory.
    """
    from transduce.translation.alignment import aligned_words

    try:
        pairs = aligned_words(translator.explain(source, best.tokens)) if best.tokens else []
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise LineTooLargeError(number, "is too long to be aligned in the memory here; split the line") from None
    return " ".join(f"{source_word}-{target_word}" for source_word, target_word in pairs)
