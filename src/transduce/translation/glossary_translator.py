"""Translation with a glossary, which prescribes translations for terms in the source.

Each line is first translated without the glossary. If the prescribed translation of a term is missing from the output,
the attention weights show which word of the output translates the term. The line is then translated again with a forced
prefix: the output up to that word, followed by the prescribed translation. After the prefix, the search continues
freely. If the glossary has several translations for a term, the one that results in the best score is used.
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
    """A line that contains terms, with its current translation.

    `missing` lists the terms whose prescribed translation is missing, and `prefix` is the prefix that was forced.
    """

    line: str
    terms: list[Occurrence]
    translation: Translation
    missing: list[Occurrence]
    prefix: str = ""


class Attempt(NamedTuple):
    """A prefix that is to be forced on the translation of a line."""

    place: int  # index of the line in the whole text
    line: str
    prefix: str
    replaced: int | None  # the token of the draft that the term replaces, so it should not come after the term


class GlossaryTranslator:
    """Translates lines with a `Translator`, applies the terms of a glossary, and counts how many were honoured."""

    def __init__(self, translator: Translator, glossary: Glossary) -> None:
        """Creates a translator that applies the terms of `glossary`.

        Raises ValueError if the model has no attention weights, because they show where in the output a term belongs.
        """
        translator.check_explicable()
        self.translator, self.glossary = translator, glossary
        self.terms = 0
        """The number of terms that were found in all lines so far."""
        self.honoured = 0
        """The number of these terms whose translation agrees with the glossary."""
        self.forced = 0
        """The number of these terms that were missing from the first translation and then forced successfully."""
        engine = translator.torch_engine
        self._boundaries = _word_boundaries(translator.target, engine.symbols.end).to(engine.device)
        if not glossary.is_spaced:
            self._boundaries[:] = True

    @property
    def summary(self) -> str:
        """A message that says how many of the terms were honoured."""
        if not self.terms:
            return "no term of the glossary occurs in the text as it is written; other forms need their own lines"
        return f"{self.honoured:,} of {self.terms:,} terms honoured"

    def check_method(self, method: SearchMethod) -> None:
        """Raises ValueError if the search method samples, or if it returns several translations of a line."""
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
        """Returns, for each line, a list that contains only the best translation.

        Arguments and errors are those of `Translator.translate_lines`. In addition, raises ValueError if `prefixes` are
        given, because the glossary sets the prefixes itself.
        """
        if prefixes is not None:
            raise ValueError("a glossary begins translations itself: leave --prefix out")
        method = method or SearchMethod(self.translator.decoding)
        self.check_method(method)
        lines = [normalise(line, "source") for line in lines]  # replaces a no-break space in a term with a space
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
        """Returns the attempts whose line and prefix are short enough for the model."""
        faults = self.translator.line_faults([one.line for one in attempts], [one.prefix for one in attempts])
        return [attempt for number, attempt in enumerate(attempts) if number not in faults]

    def _translate(
        self, attempts: list[Attempt], method: SearchMethod, batch_tokens: int
    ) -> dict[Attempt, Translation]:
        """Returns the translation that results from each attempt.

        If the token that a term should replace comes directly after the term, the search is repeated with that token
        excluded at this position.
        """

        def search(chosen: list[Attempt], without: int | None = None) -> dict[Attempt, Translation]:
            return self._search(chosen, method._replace(may_follow=self._may_follow(without)), batch_tokens)

        results = search(attempts)
        repeating = sorted((one for one in attempts if self._repeats(one, results[one])), key=attrgetter("replaced"))
        for replaced, group in groupby(repeating, key=attrgetter("replaced")):
            results |= search(list(group), without=replaced)
        return results

    def _search(self, attempts: list[Attempt], method: SearchMethod, batch_tokens: int) -> dict[Attempt, Translation]:
        """Returns the translation that results from each attempt.

        Raises LineTooLargeError, which names the line, if a line does not fit in memory.
        """
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
        """Returns, for each line with attempts, a draft that contains the translation with the best score."""
        best: dict[int, Draft] = {}
        for attempt, translation in results.items():
            place = attempt.place
            if place not in best or translation.score > best[place].translation.score:
                best[place] = self._draft(attempt.line, drafts[place].terms, translation, attempt.prefix)
        return best

    def _repeats(self, attempt: Attempt, translation: Translation) -> bool:
        """Returns True if the token that the term should replace comes directly after the term."""
        (prefix,) = self.translator.target.encode([attempt.prefix])
        return translation.tokens[len(prefix) : len(prefix) + 1] == [attempt.replaced]

    def _may_follow(self, without: int | None) -> Bool[Tensor, " vocabulary"]:
        """Returns a mask of the tokens that may come directly after a term.

        Tokens that would continue the last word of the term are excluded, and so is the token `without`.
        """
        flags = self._boundaries.clone()
        if without is not None:
            flags[without] = False
        return flags

    def _attempts(self, place: int, draft: Draft) -> list[Attempt]:
        """Returns one attempt for each alternative translation of the first missing term.

        The prefix of an attempt is the output up to the position at which the term belongs, followed by the alternative
        translation.
        """
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
        """Returns, for each missing term, the character index in the output at which its translation belongs.

        The index never lies within the prefix that has already been forced. Raises LineTooLargeError if the attention
        weights do not fit in memory.
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
        """Returns the start of the word that contains the character at `place`, or of the next word if this is a space.

        In scripts without spaces between words, every character counts as a word.
        """
        while place < len(text) and text[place].isspace():
            place += 1
        while self.glossary.is_spaced and place > 0 and is_in_word(text[place - 1]):
            place -= 1
        return place


def _count_missing(drafts: dict[int, Draft]) -> int:
    return sum(len(draft.missing) for draft in drafts.values())


def _spans(vocabulary: TokenVocabulary, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the start and end of each token in the decoded text, as character indices."""
    lengths = [len(text) for text in vocabulary.decode([tokens[:count] for count in range(len(tokens) + 1)])]
    return list(pairwise(lengths))


def _word_boundaries(target: TokenVocabulary, end: int) -> Bool[Tensor, " vocabulary"]:
    r"""Returns a mask of the tokens that do not continue the word before them.

    These are the tokens that do not begin with a letter, a digit or a combining mark. A token that begins in the middle
    of a character is displayed as an escape such as "\xc3" and is treated like a letter. In fairseq's subwords, a token
    is marked if its word continues. After any token without this mark a new word begins, so the mask is True for all
    tokens.
    """
    if isinstance(target, ImportedSubwords) and target.says_where_words_end:
        return torch.ones(target.size, dtype=torch.bool)
    subwords = target.readable_subwords(range(target.size))
    flags = [not (subword.startswith("\\x") or (subword and is_in_word(subword[0]))) for subword in subwords]
    flags[end] = True
    return torch.tensor(flags)
