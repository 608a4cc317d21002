"""The forms in which translations are written: text, tab-separated values, JSON."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from transduce.translation.alignment import aligned_words
from transduce.translation.translator import Translation, Translator

__all__ = ["OutputFormat"]


class OutputFormat(NamedTuple):
    """What is written of each line; nothing but the text of its best translation by default."""

    scores: bool = False
    alignments: bool = False
    json: bool = False

    def lines(
        self, translator: Translator, sources: Sequence[str], found: Sequence[Sequence[Translation]], before: int = 0
    ) -> list[str]:
        """The lines to write for what was `found` of `sources`, which have so many lines of the text `before` them."""
        shown = []
        for number, (source, best) in enumerate(zip(sources, found, strict=True), start=before + 1):
            if self.json:
                shown.append(self._record(translator, number, source, best))
            elif self.scores:
                shown += [f"{number}\t{_cell(one.text)}\t{one.log_probability:.6f}\t{one.score:.6f}" for one in best]
            elif self.alignments:
                shown.append(f"{_cell(best[0].text)}\t{_pairs(translator, source, best[0])}")
            else:
                shown.append(best[0].text)
        return shown

    def _record(self, translator: Translator, number: int, source: str, best: Sequence[Translation]) -> str:
        """A line's JSON."""
        record = [{"text": one.text, "log_probability": one.log_probability, "score": one.score} for one in best]
        aligned = {"alignment": _pairs(translator, source, best[0])} if self.alignments else {}
        return json.dumps({"line": number, "translations": record, **aligned}, ensure_ascii=False)


def _cell(text: str) -> str:
    """A tab would begin another column."""
    return text.replace("\t", " ")


def _pairs(translator: Translator, source: str, best: Translation) -> str:
    """Which word of the source each word of the translation comes from."""
    found = aligned_words(translator.explain(source, best.tokens)) if best.text else []
    return " ".join(f"{word}-{other}" for word, other in found)
