"""Learns from sentence pairs which words are names, that is, words that translations copy.

A capital letter alone is not enough to recognise a name, because some languages capitalise all nouns. There are two
rules instead:

- A word is a known name if the training text capitalises it within sentences and never writes it in lower case, and if
  the translations of these sentences copy it.
- A word that does not occur in the training text is a name if it is capitalised within a sentence. This rule is meant
  for languages that capitalise few words other than names.

A rule that causes many false alarms on held-out translations is not used.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from transduce.settings import Spec

MAX_FALSE_ALARMS = 0.01  # maximum share of held-out pairs in which a name is wrongly reported as missing
# The evidence required for a known name, from weak to strong: the minimum number of times that it occurs within
# sentences, and the minimum share of these occurrences that the translations copy.
EVIDENCE = ((2, 0.9), (2, 1.0), (5, 1.0))
KEPT = 0.6  # share of a name's letters with which an inflected copy must begin, as in Europe and Europas
MIN_LETTERS = 3

WORD = re.compile(r"[^\W\d_]\w*(?:[-'’.&]\w+)*")
PART = re.compile(r"[-'’.&]")
OPENS_SENTENCE = frozenset(".!?:;…\"“”„»«'‘’([-–—¿¡")

Pairs = Iterable[tuple[str, str]]


class Names(Spec):
    """Recognises names in a text and finds those that are missing from its translation.

    Every word in `known` is a name. If `ordinary` is not None, a word that is capitalised within a sentence is also a
    name unless it is in `ordinary`.
    """

    known: tuple[str, ...]
    ordinary: tuple[str, ...] | None  # in lower case; if None, an unknown word is not a name

    @classmethod
    def learn(cls, training: Pairs, held_out: Sequence[tuple[str, str]]) -> "Names":
        """Learns names from training pairs, using the first rules that cause few false alarms on the pairs `held_out`.

        Rules that require less evidence are tried first, because they recognise more names. If no rules are good
        enough, the result does not recognise any names.
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
        """Returns the names in a source that are missing from its translation, even in an inflected form."""
        names = [word for word, is_first in _capitalised(source) if self._is_name(word, is_first)]
        if not names:
            return []
        parts = _parts(output)
        return [word for word in names if not _is_copied(word, parts)]

    def false_alarms(self, pairs: Sequence[tuple[str, str]]) -> float:
        """Returns the share of `pairs` in which a name seems to be missing although the translation is correct."""
        return sum(bool(self.missing(*pair)) for pair in pairs) / max(len(pairs), 1)

    def _is_name(self, word: str, is_first: bool) -> bool:
        """Returns True if a capitalised word is a name; `is_first` tells whether it begins a sentence."""
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
    """Returns the capitalised words of a source, each with a flag that tells whether it begins a sentence."""
    capitalised = []
    for match in WORD.finditer(source):
        word = match.group()
        if word[0].isupper() and len(word) >= MIN_LETTERS:
            before = source[: match.start()].rstrip()
            capitalised.append((word, not before or before[-1] in OPENS_SENTENCE))
    return capitalised


def _parts(text: str) -> frozenset[str]:
    """Returns the words of a text, and the parts of words with hyphens or similar characters, in lower case."""
    words = [word.casefold() for word in WORD.findall(text)]
    return frozenset([*words, *(part for word in words for part in PART.split(word))])


def _is_copied(name: str, parts: frozenset[str]) -> bool:
    """Returns True if one of `parts` begins with the first letters of a name or contains the whole name."""
    stem = re.sub("['’]s?$", "", name).casefold()
    beginning = stem[: max(MIN_LETTERS, math.ceil(len(stem) * KEPT))]
    return any(part.startswith(beginning) or (len(stem) > MIN_LETTERS and stem in part) for part in parts)
