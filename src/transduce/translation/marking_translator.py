"""Translation of lines in which terms are marked, by a model that was trained with marked terms."""

import copy
from collections.abc import Sequence
from operator import itemgetter

from transduce.text.glossary import Glossary, Occurrence, capitalise
from transduce.text.subwords import Subwords
from transduce.text.term_marks import MarkedSpan, MarkedSubwords, has_term_marks, mark_terms
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

__all__ = ["MarkingTranslator"]

Request = tuple[str, Sequence[Occurrence], str]
"""A line, its terms, and a translation that may have some of them."""


class MarkingTranslator:
    """Translates lines with the terms of a glossary between marks."""

    def __init__(self, translator: Translator, glossary: Glossary) -> None:
        """Takes a translator whose source subwords read marks."""
        self.translator, self.glossary = translator, glossary

    @classmethod
    def of(cls, translator: Translator, glossary: Glossary) -> "MarkingTranslator | None":
        """Returns a translator with the same models that reads marks; None where they were trained without."""
        if not isinstance(translator.source, Subwords) or not has_term_marks(translator.source):
            return None
        marking = copy.copy(translator)
        marking.source = MarkedSubwords.parse(translator.source.as_json().encode(), place="the source vocabulary")
        return cls(marking, glossary)

    def translate(
        self, requests: Sequence[Request], method: SearchMethod, batch_tokens: int
    ) -> list[list[Translation]]:
        """Returns the translations of each line: one for each alternative of its terms, none where it is too large."""
        lines = [(number, line) for number, request in enumerate(requests) for line in self._marked_lines(*request)]
        faults = self.translator.line_faults([line for _, line in lines])
        short = [one for place, one in enumerate(lines) if place not in faults]
        each = self.translator.translate_each([line for _, line in short], method, batch_tokens=batch_tokens)
        translations: list[list[Translation]] = [[] for _ in requests]
        for place, best in sorted(each, key=itemgetter(0)):
            if not isinstance(best, str):
                translations[short[place][0]].append(best[0])
        return translations

    def _marked_lines(self, line: str, terms: Sequence[Occurrence], output: str) -> list[str]:
        """Returns the line with marks, once for each alternative; a term that `output` has keeps its translation."""
        choices = [self._choices(line, term, output) for term in terms]
        variants = range(max(map(len, choices)))
        marked = [
            mark_terms(
                line, [MarkedSpan(*term[:2], some[n % len(some)]) for term, some in zip(terms, choices, strict=True)]
            )
            for n in variants
        ]
        return [text for text in marked if text is not None]

    def _choices(self, line: str, term: Occurrence, output: str) -> Sequence[str]:
        """Returns the translations that a term may have: the one in `output`, or all alternatives."""
        present = [
            target for target in term.targets if not self.glossary.missing(output, [term._replace(targets=(target,))])
        ]
        at_beginning = not line[: term.start].strip() and line[term.start].isupper()
        targets = present[:1] or term.targets
        return [capitalise(target) if at_beginning and target.islower() else target for target in targets]
