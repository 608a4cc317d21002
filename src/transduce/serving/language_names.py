"""Matches language codes from clients, names languages in English, and detects the language of a text."""

import functools
import math
from collections.abc import Callable, Iterable, Mapping

from transduce.inspection.languages import load_language_identifier
from transduce.runtime.extras import install_command
from transduce.serving.contract import Detection, NamedLanguage

AUTO = "auto"  # the source language of a request whose language is to be detected
LEAST_LETTERS, SURE = 25, 99.0  # letters and per cent needed to conclude that a text is in a different language

# Maps codes of LibreTranslate's clients to codes of BCP 47.
ALIASES = {"pb": "pt-br", "zh": "zh-hans", "zt": "zh-hant"}


def is_auto(code: str) -> bool:
    """Returns True if `code` is "auto", with which a client asks for language detection."""
    return _normal(code) == AUTO


def matching_code(code: str, codes: Iterable[str]) -> str | None:
    """Returns the one of the served `codes` that a client means by `code`, or None if there is none.

    Case is ignored, and "_" is treated like "-". A code with a region, for example de-AT, also matches the code of the
    language alone, if the server has no such regional variant.
    """
    served = {_normal(name): name for name in codes}
    normal = _normal(code)
    candidates = [normal, ALIASES.get(normal), *(alias for alias, name in ALIASES.items() if name == normal)]
    return next((served[name] for name in [*candidates, normal.split("-")[0]] if name in served), None)


def _normal(code: str) -> str:
    return code.strip().lower().replace("_", "-")


@functools.cache
def language_name(code: str) -> str:
    """Returns the English name of a language, for example "German", or the code itself if the name is unknown."""
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    code = ALIASES.get(_normal(code), code)
    try:
        name = Language.get(code).display_name()
    except LanguageTagError:
        return code
    return code if name.startswith("Unknown language") else name


def named_language(code: str) -> NamedLanguage:
    """Returns a language code together with the English name of the language."""
    return NamedLanguage(code=code, name=language_name(code))


class LanguageDetector:
    """Detects which of the served languages a text is in."""

    def __init__(self, identify: Callable[[str], Mapping[str, float]]) -> None:
        """Sets the function `identify`, which returns the log-likelihood of a text in each language that it knows."""
        self._identify = identify

    @classmethod
    def load(cls) -> "LanguageDetector":
        """Creates a detector with py3langid; raises ValueError if py3langid is not installed."""
        identify = load_language_identifier()
        if identify is None:
            raise ValueError(f"languages are detected by py3langid: {install_command('serve')}")
        return cls(identify)

    def other_language(self, text: str, code: str) -> Detection | None:
        """Returns the language of a text if it is almost certainly not `code`, and None otherwise.

        The result is also None if the text has too few letters, or if the identifier does not know `code`.
        """
        scores = self._identify(text)
        language = ALIASES.get(_normal(code), _normal(code)).split("-")[0]
        if language not in scores or sum(map(str.isalpha, text)) < LEAST_LETTERS:
            return None
        best = _ranked(scores, scores)[0]
        return best if best.language != language and best.confidence >= SURE else None

    def detect(self, text: str, codes: Iterable[str]) -> list[Detection]:
        """Returns each of the served `codes` with its probability, most probable first.

        The probabilities of all languages that py3langid knows sum to 1, so those of `codes` are low if the text is in
        another language. Languages that py3langid does not know come last.
        """
        return _ranked(self._identify(text), codes)


def _ranked(scores: Mapping[str, float], codes: Iterable[str]) -> list[Detection]:
    """Returns each of `codes` with its probability, most probable first.

    `scores` are the log-likelihoods of all languages that the identifier knows.
    """
    largest = max(scores.values())
    total = sum(math.exp(score - largest) for score in scores.values())
    rows = []
    for code in codes:
        normal = _normal(code)
        score = scores.get(ALIASES.get(normal, normal).split("-")[0])
        probability = 0.0 if score is None else math.exp(score - largest) / total
        rows.append((score is not None, score or 0.0, Detection(confidence=round(100 * probability, 1), language=code)))
    return [language for _, _, language in sorted(rows, key=lambda row: row[:2], reverse=True)]
