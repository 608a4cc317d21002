"""Names: words that translations copy, learned from pairs of lines in any languages.

In a language that capitalises its nouns, a capital letter does not show a name. Two rules work without it:

- A known name is a word that the training text writes with a capital letter within sentences, never in lower case, and
  that its translations copy.
- A word that the training text lacks is a name if it has a capital letter within a sentence. This rule is for languages
  that capitalise little except names.

Rules that would give many false alarms on held-out translations are left out.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from transduce.settings import Spec

MAX_FALSE_ALARMS = 0.01  # share of held-out pairs whose correct translation would seem to lack a name
# Evidence for a known name: how often it occurs within sentences, and the share of their translations that copy it.
EVIDENCE = ((2, 0.9), (2, 1.0), (5, 1.0))
KEPT = 0.6  # share of a name's first letters that an inflected copy keeps: Europe, Europas
MIN_LETTERS = 3

WORD = re.compile(r"[^\W\d_]\w*(?:[-'’.&]\w+)*")
PART = re.compile(r"[-'’.&]")
OPENS_SENTENCE = frozenset(".!?:;…\"“”„»«'‘’([-–—¿¡")

Pairs = Iterable[tuple[str, str]]


class Names(Spec):
    """The names that a text may have.

    A word of `known` is a name. If `ordinary` is not None, so is each capitalised word within a sentence that is not in
    `ordinary`.
    """

    known: tuple[str, ...]
    ordinary: tuple[str, ...] | None  # in lower case; None: an unknown word is not a name

    @classmethod
    def learn(cls, training: Pairs, held_out: Sequence[tuple[str, str]]) -> "Names":
        """Learns from training pairs; uses the first rules that have few false alarms on the pairs `held_out`.

        Rules that require stronger evidence leave fewer names. It is possible that no rule remains.
        """
        seen, copied, lower, words = Counter[str](), Counter[str](), set[str](), set[str]()
        for source, target in training:
            of_line = WORD.findall(source)
            lower.update(word.casefold() for word in of_line if word[0].islower())
            words.update(of_line)
            if within := [word for word, is_first in _capitalised(source) if not is_first]:
                output = _parts(target)
                seen.update(within)
                copied.update(word for word in within if _is_copied(word, output))
        candidates = {word for word in seen if word.casefold() not in lower}
        for least, share in EVIDENCE:
            names = {word for word in candidates if seen[word] >= least and copied[word] >= share * seen[word]}
            ordinary = tuple(sorted({word.casefold() for word in words - names}))
            for rules in (cls(known=tuple(sorted(names)), ordinary=some) for some in (ordinary, None)):
                if rules.false_alarms(held_out) <= MAX_FALSE_ALARMS:
                    return rules
        return cls(known=(), ordinary=None)

    def missing(self, source: str, output: str) -> list[str]:
        """Returns the names in a source that its translation lacks, even with a different ending."""
        names = [word for word, is_first in _capitalised(source) if self._is_name(word, is_first)]
        if not names:
            return []
        parts = _parts(output)
        return [word for word in names if not _is_copied(word, parts)]

    def false_alarms(self, pairs: Sequence[tuple[str, str]]) -> float:
        """Returns the share of `pairs`, all correct translations, that seem to lack a name."""
        return sum(bool(self.missing(*pair)) for pair in pairs) / max(len(pairs), 1)

    def _is_name(self, word: str, is_first: bool) -> bool:
        """Whether a capitalised word is a name; `is_first` says that it begins a sentence."""
        if word in self._known:
            return True
        return self.ordinary is not None and not is_first and word.casefold() not in self._ordinary

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.known)

    @cached_property
    def _ordinary(self) -> frozenset[str]:
        return frozenset(self.ordinary or ())


def _capitalised(source: str) -> list[tuple[str, bool]]:
    """Words with a capital letter, and whether each begins a sentence."""
    capitalised = []
    for match in WORD.finditer(source):
        word = match.group()
        if word[0].isupper() and len(word) >= MIN_LETTERS:
            before = source[: match.start()].rstrip()
            capitalised.append((word, not before or before[-1] in OPENS_SENTENCE))
    return capitalised


def _parts(text: str) -> frozenset[str]:
    """Words and parts of words of a text, in lower case."""
    words = [word.casefold() for word in WORD.findall(text)]
    return frozenset([*words, *(part for word in words for part in PART.split(word))])


def _is_copied(name: str, parts: frozenset[str]) -> bool:
    """Whether one of `parts` begins with the first letters of a name, or contains the name."""
    stem = re.sub("['’]s?$", "", name).casefold()
    beginning = stem[: max(MIN_LETTERS, math.ceil(len(stem) * KEPT))]
    return any(part.startswith(beginning) or (len(stem) > MIN_LETTERS and stem in part) for part in parts)
