"""Translation with a glossary: terms of the source get the translations that the glossary gives.

A line is first translated freely. If the translation of a term is missing, it is forced: attention shows which word of
the output translates the term. The line is then translated again, with the output up to that word and the glossary's
translation as a forced prefix, after which the search continues freely. If a term has alternatives, the one with the
best score is used.
"""

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from transduce.runtime.combining_marks import is_in_word
from transduce.runtime.progress import track
from transduce.text.glossary import Glossary, Occurrence, capitalise
from transduce.text.normalisation import normalise
from transduce.text.sentence_pieces import ImportedSubwords
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.translation.alignment import subword_weights
from transduce.translation.batching import LineTooLargeError
from transduce.translation.results import EMPTY, Translation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import BATCH_TOKENS, Translator


class Draft(NamedTuple):
    """A line with its terms, its translation, the terms that the translation lacks, and the forced beginning."""

    line: str
    terms: list[Occurrence]
    translation: Translation
    missing: list[Occurrence]
    prefix: str = ""


class Attempt(NamedTuple):
    """A beginning to force on the translation of a line."""

    place: int  # index of the line in the whole text
    line: str
    prefix: str
    replaced: int | None  # the token of the draft that the term replaces; it should not follow the term


class GlossaryTranslator:
    """Translates lines like a translator, but with the terms of a glossary; counts the terms."""

    def __init__(self, translator: Translator, glossary: Glossary) -> None:
        """Raises ValueError if the model has no attention weights, which are needed to place the terms."""
        translator.check_explicable()
        self.translator, self.glossary = translator, glossary
        self.terms = 0
        """Terms in all lines so far."""
        self.honoured = 0
        """The number of these terms whose translation agrees with the glossary."""
        self.forced = 0
        """The number of these terms that were missing until they were forced."""
        engine = translator.torch_engine
        self._boundaries = _word_boundaries(translator.target, engine.symbols.end).to(engine.device)
        if not glossary.is_spaced:
            self._boundaries[:] = True

    @property
    def summary(self) -> str:
        """How many terms are honoured, in words."""
        return f"{self.honoured:,} of {self.terms:,} terms honoured"

    def check_method(self, method: SearchMethod) -> None:
        """Raises ValueError if the method samples or returns several translations of a line."""
        if method.sampling is not None or method.n_best > 1:
            raise ValueError("a glossary gives one translation of a line: leave sampling and --n-best out")

    def translate_lines(
        self,
        lines: Sequence[str],
        method: SearchMethod | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> list[list[Translation]]:
        """Returns the best translation of each line; arguments and errors are like the translator's.

        Raises ValueError for `prefixes`, because the glossary needs the prefixes itself.
        """
        if prefixes is not None:
            raise ValueError("a glossary begins translations itself: leave --prefix out")
        method = method or SearchMethod(self.translator.decoding)
        self.check_method(method)
        lines = [normalise(line, "source") for line in lines]  # turns a no-break space within a term into a space
        free = self.translator.translate_lines(lines, method, batch_tokens=batch_tokens, lines_before=lines_before)
        occurrences = map(self.glossary.find, lines)
        drafts = {
            place: self._draft(line, terms, best[0])
            for place, (line, terms, best) in enumerate(zip(lines, occurrences, free, strict=True), lines_before)
            if terms
        }
        lacking = _count_missing(drafts)
        # Each round places one more term of every line that still lacks terms.
        for _ in range(max((len(draft.terms) for draft in drafts.values()), default=0)):
            attempts = [
                attempt for place, draft in drafts.items() if draft.missing for attempt in self._attempts(place, draft)
            ]
            if not attempts:
                break
            results = self._translate(self._possible(attempts), method, batch_tokens)
            drafts |= self._best_drafts(drafts, results)
        self.terms += sum(len(draft.terms) for draft in drafts.values())
        self.honoured += sum(len(draft.terms) for draft in drafts.values()) - _count_missing(drafts)
        self.forced += lacking - _count_missing(drafts)
        return [[drafts[place].translation] if place in drafts else row for place, row in enumerate(free, lines_before)]

    def _draft(self, line: str, terms: list[Occurrence], translation: Translation, prefix: str = "") -> Draft:
        return Draft(line, terms, translation, self.glossary.missing(translation.text, terms), prefix)

    def _possible(self, attempts: list[Attempt]) -> list[Attempt]:
        """Returns the attempts whose line and prefix are not too long."""
        faults = self.translator.line_faults([one.line for one in attempts], [one.prefix for one in attempts])
        return [attempt for number, attempt in enumerate(attempts) if number not in faults]

    def _translate(
        self, attempts: list[Attempt], method: SearchMethod, batch_tokens: int
    ) -> dict[Attempt, Translation]:
        """Returns the translation that each attempt leads to.

        If the replaced word follows the term, the search runs again without that word.
        """

        def search(chosen: list[Attempt], without: int | None = None) -> dict[Attempt, Translation]:
            return self._search(chosen, method._replace(may_follow=self._may_follow(without)), batch_tokens)

        results = search(attempts)
        repeating = sorted((one for one in attempts if self._repeats(one, results[one])), key=attrgetter("replaced"))
        for replaced, group in groupby(repeating, key=attrgetter("replaced")):
            results |= search(list(group), without=replaced)
        return results

    def _search(self, attempts: list[Attempt], method: SearchMethod, batch_tokens: int) -> dict[Attempt, Translation]:
        """Returns the translation that each attempt leads to; raises LineTooLargeError, which names the line."""
        sources, prefixes = [one.line for one in attempts], [one.prefix for one in attempts]
        translations = [EMPTY for _ in attempts]
        with track("translating", len(attempts)) as progress:
            for number, best in self.translator.translate_each(sources, method, prefixes, batch_tokens):
                if isinstance(best, str):
                    raise LineTooLargeError(attempts[number].place + 1, best)
                translations[number] = best[0]
                progress.advance()
        return dict(zip(attempts, translations, strict=True))

    def _best_drafts(self, drafts: dict[int, Draft], results: dict[Attempt, Translation]) -> dict[int, Draft]:
        """Returns, for each line, the draft of its best attempt."""
        best: dict[int, Draft] = {}
        for attempt, translation in results.items():
            place = attempt.place
            if place not in best or translation.score > best[place].translation.score:
                best[place] = self._draft(attempt.line, drafts[place].terms, translation, attempt.prefix)
        return best

    def _repeats(self, attempt: Attempt, translation: Translation) -> bool:
        """Whether the word that the term replaces follows the term."""
        (prefix,) = self.translator.target.encode([attempt.prefix])
        return translation.tokens[len(prefix) : len(prefix) + 1] == [attempt.replaced]

    def _may_follow(self, without: int | None) -> Bool[Tensor, " vocabulary"]:
        """Flags the tokens that may follow a term: all that do not lengthen its last word, except `without`."""
        flags = self._boundaries.clone()
        if without is not None:
            flags[without] = False
        return flags

    def _attempts(self, place: int, draft: Draft) -> list[Attempt]:
        """Returns, for each alternative of the first missing term, the output up to the term, then the alternative."""
        text = draft.translation.text
        position, occurrence = min(zip(self._places(place, draft), draft.missing, strict=True), key=lambda one: one[0])
        kept = text[:position].rstrip() if text.startswith(draft.prefix) else draft.prefix
        has_space = text[len(kept) : position].isspace() or position <= len(draft.prefix)
        space = " " if kept and has_space and self.glossary.is_spaced else ""
        targets: tuple[str, ...] = occurrence.targets
        if not kept and (draft.line[:1].isupper() or text[:1].isupper()):
            targets = tuple(capitalise(target) if target.islower() else target for target in targets)
        tokens = draft.translation.tokens
        spans = zip(tokens, _spans(self.translator.target, tokens), strict=True)
        replaced = next((token for token, (start, end) in spans if start <= position < end), None)
        return [Attempt(place, draft.line, f"{kept}{space}{target}", replaced) for target in targets]

    def _places(self, place: int, draft: Draft) -> list[int]:
        """Returns the character index in the output at which each missing term belongs, after the forced prefix.

        Raises LineTooLargeError, which names the line, if its attention weights do not fit into memory.
        """
        text, tokens = draft.translation.text, draft.translation.tokens
        try:
            explanation = self.translator.explain(draft.line, tokens)
        except LineTooLargeError as error:
            raise LineTooLargeError(place + 1, error.fault) from None
        weights = subword_weights(explanation)
        (encoded,) = self.translator.source.encode([draft.line])
        source, target = _spans(self.translator.source, encoded), _spans(self.translator.target, tokens)
        places = []
        for occurrence in draft.missing:
            columns = [n for n, (start, end) in enumerate(source) if start < occurrence.end and occurrence.start < end]
            row = int(weights[: len(target), columns].sum(1).argmax()) if len(target) else 0
            character = target[row][0] if target else 0
            places.append(max(self._word_start(text, character), len(draft.prefix)))
        return places

    def _word_start(self, text: str, place: int) -> int:
        """Returns the start of the word at a character; in scripts without spaces, every character starts a word."""
        while place < len(text) and text[place].isspace():
            place += 1
        while self.glossary.is_spaced and place > 0 and is_in_word(text[place - 1]):
            place -= 1
        return place


def _count_missing(drafts: dict[int, Draft]) -> int:
    return sum(len(draft.missing) for draft in drafts.values())


def _spans(vocabulary: TokenVocabulary, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the start and end of each token in the text of `tokens`, in characters."""
    lengths = [len(text) for text in vocabulary.decode([tokens[:count] for count in range(len(tokens) + 1)])]
    return list(pairwise(lengths))


def _word_boundaries(target: TokenVocabulary, end: int) -> Bool[Tensor, " vocabulary"]:
    r"""Flags the tokens that do not lengthen the word before them: all that do not begin with a letter, digit or mark.

    A part of a character is readable as an escape, for example "\xc3", and counts as a letter. In fairseq's subwords a
    word that continues is marked as such, so after an unmarked token every token begins a new word.
    """
    if isinstance(target, ImportedSubwords) and target.says_where_words_end:
        return torch.ones(target.size, dtype=torch.bool)
    subwords = target.readable_subwords(range(target.size))
    flags = [not (subword.startswith("\\x") or (subword and is_in_word(subword[0]))) for subword in subwords]
    flags[end] = True
    return torch.tensor(flags)
