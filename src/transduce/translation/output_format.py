"""Output formats of translations: text, tab-separated values, JSON."""

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

JSON_KEYS = ("text", "log_probability", "score")  # of a translation
WORD = re.compile("[^ ▁]+")  # counts words like `words_of_subwords`; subwords write other white space as escapes


class OutputFormat(NamedTuple):
    """What is written for each line; by default the text of its best translation."""

    scores: bool = False
    alignments: bool = False
    json: bool = False
    confidence: "Calibration | None" = None
    """Adds columns with the confidence and the reasons for doubt; in JSON also the probability of each word."""
    words: bool = False
    """In JSON adds the probability of each word, even without a calibration."""
    pairs: Literal["backward", "forward"] | None = None
    """Writes two columns for training: with `backward` the translation is the source, with `forward` the target."""

    def check(self, translator: Translator) -> None:
        """Raises ValueError if an output needs attention weights or word probabilities that `translator` lacks."""
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
        """Formats the translations of each of `sources`, best first, as output lines.

        `lines_before` counts the lines of the text before `sources`. Raises LineTooLargeError if the alignment of a
        line does not fit into memory.
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
        """Formats a line as JSON."""
        records = [{key: getattr(translation, key) for key in JSON_KEYS} for translation in best]
        aligned = {"alignment": _alignment(translator, number, source, best[0])} if self.alignments else {}
        assessed = self._assessment(translator, source, best[0])
        into = {"target_language": translator.target_language} if translator.target_language else {}
        return json_text({"line": number, **into, "translations": records, **aligned, **assessed}, ensure_ascii=False)

    def _assessment(self, translator: Translator, source: str, best: Translation) -> dict[str, Any]:
        """Returns the confidence in a translation, the doubts, and the probability of each word, as JSON fields."""
        record: dict[str, Any] = {}
        if self.confidence is not None:
            record["confidence"], doubts = self.confidence.assess(source, best)
            record["doubts"] = list(doubts)
        if self.confidence is not None or self.words:
            record["words"] = _word_probabilities(translator, source, best)
        return record


def _word_probabilities(translator: Translator, source: str, best: Translation) -> list[list[Any]]:
    """Returns each word of a translation with the product of the probabilities of its subwords."""
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
        return []  # an imported model's unknown token may hide where words begin
    return [[word, math.exp(total)] for word, total in zip(words, sums, strict=True)]


def _cell(text: str) -> str:
    """Replaces tabs with spaces, because a tab would begin a new column."""
    return text.replace("\t", " ")


def _alignment(translator: Translator, number: int, source: str, best: Translation) -> str:
    """Returns the aligned words of line `number` as "0-0 1-2": source word, target word."""
    from transduce.translation.alignment import aligned_words

    try:
        pairs = aligned_words(translator.explain(source, best.tokens)) if best.tokens else []
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise LineTooLargeError(number, "is too long to be aligned in the memory here; split the line") from None
    return " ".join(f"{source_word}-{target_word}" for source_word, target_word in pairs)
