"""Finds the script and the language of each line, and the lines that differ from the other lines on their side.

The language identifier, py3langid, reads a few thousand lines per second, which is too slow for a large corpus. It is
therefore applied only to the first `LEARNED` pairs, from which the frequent words in the usual language of each side
are learned, and to later lines that contain few of these words.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.inspection.line_checks import Check
from transduce.text.normalisation import normalise

RANGES = {
    "Latin": "A-Za-zªºÀ-ÖØ-öø-ɏḀ-ỿ",
    "Greek": "Ͱ-Ͽἀ-῿",
    "Cyrillic": "Ѐ-ԯ",
    "Armenian": "\u0531-\u058f",
    "Hebrew": "\u05d0-\u05ea",
    "Arabic": "\u0620-\u065f\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
    "Indic": "\u0900-\u0df3",
    "Thai and Lao": "\u0e01-\u0edf",
    "Georgian": "\u10a0-\u10ff",
    "Ethiopic": "\u1200-\u137f",
    "Hangul": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "Han and Kana": "\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f",
}
"""The letters of each script. Scripts that are mixed in the same text, such as Han and Kana, count as one."""

SCRIPTS = ("none", *RANGES, "another")
LETTERS = [re.compile(f"[{letters}]") for letters in RANGES.values()]
BEYOND_LATIN = re.compile(r"[^\W\d_A-Za-zªºÀ-ÖØ-öø-ɏḀ-ỿʰ-ˀ]")

USUAL_SHARE = 0.05
"""The minimum share of lines on a side that must be in a script for this script to count as usual."""

LEAST_SCRIPT_LETTERS = 8
"""The minimum number of letters in a line for its script to be determined. A shorter line may be a name."""


def script_of(line: str) -> int:
    """Returns the index in `SCRIPTS` of the script that most letters of a line belong to.

    The index is 0 if the line has fewer than `LEAST_SCRIPT_LETTERS` letters.
    """
    if line.isascii() or not BEYOND_LATIN.search(line):
        has_letters = len(line) >= LEAST_SCRIPT_LETTERS and sum(map(str.isalpha, line)) >= LEAST_SCRIPT_LETTERS
        return SCRIPTS.index("Latin") if has_letters else 0
    letters = sum(map(str.isalpha, line))
    if letters < LEAST_SCRIPT_LETTERS:
        return 0
    counts = [len(pattern.findall(line)) for pattern in LETTERS]
    return counts.index(max(counts)) + 1 if max(counts) * 2 > letters else len(SCRIPTS) - 1


def lines_in_other_scripts(scripts: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Returns True for each line on a side whose script is used in less than `USUAL_SHARE` of the lines.

    Lines without a script are not counted, and the result for them is False.
    """
    counts = np.bincount(scripts, minlength=len(SCRIPTS))
    is_rare = counts < USUAL_SHARE * counts[1:].sum()
    is_rare[0] = False
    rare: NDArray[np.bool_] = is_rare[scripts]
    return rare


LanguageScores = Mapping[str, float]
"""The log-likelihood of a text in each language."""

Identifier = Callable[[str], LanguageScores]

LEARNED = 2000
"""The number of pairs from which the usual languages and their frequent words are learned."""

FREQUENT_WORDS = 400
LEAST_COVERAGE = 0.25
"""A later line is passed to the language identifier if a smaller share of its words is frequent."""

LEAST_LETTERS = 25
"""The minimum number of letters in a line for its language to be identified."""

MARGIN = 30.0
"""The number of nats by which a line must fit a different language better than the usual one to count as a fault."""


@cache
def load_language_identifier() -> Identifier | None:
    """Returns a function that scores a text in each language, or None if the extra `languages` is not installed.

    Raises OSError, which names the folder for temporary files, if the model of languages cannot be unpacked there. The
    function normalises the text like a source sentence, because invisible characters do not change its language.
    """
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        return None
    try:
        identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from error
    return lambda text: dict(identifier.rank(normalise(text, "source")))


class UsualLanguage(NamedTuple):
    """The language in which a side should be, and its frequent words."""

    code: str
    words: frozenset[str]


class PairLanguages:
    """Checks the languages of pairs after learning from the first pairs which language is usual on each side.

    `codes` are the languages of the source and the target. If a code is None or unknown to the identifier, the most
    frequent language on that side is the usual one.
    """

    def __init__(self, identify: Identifier, codes: tuple[str | None, str | None] = (None, None)) -> None:
        self._identify = identify
        self._codes = codes
        self.sides: tuple[UsualLanguage, UsualLanguage] | None = None
        self.identified: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        """For each side, the number of lines in each language among the first pairs."""

    def learn(self, pairs: list[tuple[str, str]]) -> None:
        """Learns the usual language of each side and its frequent words from the first pairs."""
        sides = []
        for side, code in enumerate(self._codes):
            lines = [pair[side] for pair in pairs if _has_letters(pair[side])]
            scores = map(self._identify, lines)
            named = [(line, max(each, key=each.__getitem__)) for line, each in zip(lines, scores, strict=True)]
            self.identified[side].update(name for _, name in named)
            usual = (code or "").lower().replace("_", "-").partition("-")[0]  # `de-AT` becomes `de`
            if usual not in self._identify("language"):  # the identifier does not know it
                usual = next(iter(self.identified[side].most_common(1)), ("", 0))[0]
            words = Counter(word for line, name in named if name == usual for word in set(line.casefold().split()))
            sides.append(UsualLanguage(usual, frozenset(word for word, _ in words.most_common(FREQUENT_WORDS))))
        self.sides = sides[0], sides[1]

    def faults(self, source: str, target: str) -> list[Check]:
        """Returns a fault if the sides of a pair are swapped, or if one of them is not in the usual language.

        The list contains at most one fault.
        """
        assert self.sides is not None
        left, right = self.sides
        if not left.code or not right.code or left.code == right.code:
            return []
        scores = self._scores(source, left), self._scores(target, right)
        if not any(scores):
            return []
        is_exchanged = [
            side is not None and side[other.code] - side[own.code] > MARGIN / 2
            for side, own, other in zip(scores, (left, right), (right, left), strict=True)
        ]
        if all(is_exchanged):
            return [Check.SWAPPED]
        wrong = any(
            side and max(side.values()) - side[own.code] > MARGIN for side, own in zip(scores, self.sides, strict=True)
        )
        return [Check.WRONG_LANGUAGE] if wrong else []

    def _scores(self, line: str, usual: UsualLanguage) -> LanguageScores | None:
        """Returns the language scores of a line.

        Returns None if the line is too short, or if enough of its words are frequent in the usual language.
        """
        if not _has_letters(line):
            return None
        words = line.casefold().split()
        if sum(word in usual.words for word in words) >= LEAST_COVERAGE * len(words):
            return None
        return self._identify(line)


def _has_letters(line: str) -> bool:
    """Returns True if a line has enough letters for its language to be identified.

    A Chinese, Japanese or Korean letter counts as three letters.
    """
    return (
        len(line) >= LEAST_LETTERS // 3
        and sum(1 + 2 * (letter > "\u2e7f") for letter in line if letter.isalpha()) >= LEAST_LETTERS
    )
