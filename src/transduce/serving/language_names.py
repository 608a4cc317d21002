"""Languages as clients name them: codes and their aliases, English names, and detection."""

import functools
import math
from collections.abc import Callable, Iterable, Mapping

from transduce.inspection.languages import load_language_identifier
from transduce.runtime.extras import install_command
from transduce.serving.contract import Detection, NamedLanguage

AUTO = "auto"  # instead of a source language: detect it
LEAST_LETTERS, SURE = 25, 99.0  # letters and percent that are needed to conclude that a text is in a different language

# Codes of LibreTranslate's clients, and the codes of BCP 47.
ALIASES = {"pb": "pt-br", "zh": "zh-hans", "zt": "zh-hant"}


def is_auto(code: str) -> bool:
    """Whether a client asks for language detection."""
    return _normal(code) == AUTO


def matching_code(code: str, codes: Iterable[str]) -> str | None:
    """Returns which of the served `codes` a client means by `code`; None if it means none of them.

    Case is ignored, and "_" is the same as "-". A code with a region, for example de-AT, means the language if only the
    language is served.
    """
    served = {_normal(name): name for name in codes}
    normal = _normal(code)
    candidates = [normal, ALIASES.get(normal), *(alias for alias, name in ALIASES.items() if name == normal)]
    return next((served[name] for name in [*candidates, normal.split("-")[0]] if name in served), None)


def _normal(code: str) -> str:
    return code.strip().lower().replace("_", "-")


@functools.cache
def language_name(code: str) -> str:
    """English name of a language, for example "German"; the code itself if the language has no name."""
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    code = ALIASES.get(_normal(code), code)
    try:
        name = Language.get(code).display_name()
    except LanguageTagError:
        return code
    return code if name.startswith("Unknown language") else name


def named_language(code: str) -> NamedLanguage:
    """A language code with its English name."""
    return NamedLanguage(code=code, name=language_name(code))


class LanguageDetector:
    """Detects the language of a text among the served languages."""

    def __init__(self, identify: Callable[[str], Mapping[str, float]]) -> None:
        """`identify` returns the log-likelihood of a text in each language that it knows."""
        self._identify = identify

    @classmethod
    def load(cls) -> "LanguageDetector":
        """Loads py3langid; raises ValueError if it is not installed."""
        identify = load_language_identifier()
        if identify is None:
            raise ValueError(f"languages are detected by py3langid: {install_command('serve')}")
        return cls(identify)

    def other_language(self, text: str, code: str) -> Detection | None:
        """The language of a text if it is certainly not in the language `code`, else None."""
        scores = self._identify(text)
        language = ALIASES.get(_normal(code), _normal(code)).split("-")[0]
        if language not in scores or sum(map(str.isalpha, text)) < LEAST_LETTERS:
            return None
        best = _ranked(scores, scores)[0]
        return best if best.language != language and best.confidence >= SURE else None

    def detect(self, text: str, codes: Iterable[str]) -> list[Detection]:
        """Each of the served `codes` with its probability, best first.

        The probabilities are over all languages that py3langid knows, so all are low if the text is in none of `codes`.
        Languages that it does not know come last.
        """
        return _ranked(self._identify(text), codes)


def _ranked(scores: Mapping[str, float], codes: Iterable[str]) -> list[Detection]:
    """Each of `codes` with its probability, best first; `scores` are log-likelihoods of all known languages."""
    largest = max(scores.values())
    total = sum(math.exp(score - largest) for score in scores.values())
    rows = []
    for code in codes:
        normal = _normal(code)
        score = scores.get(ALIASES.get(normal, normal).split("-")[0])
        probability = 0.0 if score is None else math.exp(score - largest) / total
        rows.append((score is not None, score or 0.0, Detection(confidence=round(100 * probability, 1), language=code)))
    return [language for _, _, language in sorted(rows, key=lambda row: row[:2], reverse=True)]
