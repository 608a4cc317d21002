"""Parity of an exported model: the same sentences scored and translated by its engine and here, and compared."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

__all__ = ["TOLERANCES", "ForeignEngine", "Parity", "ParityError", "compare", "odd_sentences"]

LONG_LINE_TOKENS = 600  # beyond the 512 positions that many models have
MAX_UNEXPLAINED = 0.01  # share of sentences


class Tolerance(NamedTuple):
    """The largest differences of a target token's log-probability that an export may have, in nats."""

    greatest: float | None  # of any token; None: unbounded, because rounded weights move improbable tokens far
    mean: float


TOLERANCES = {
    "float32": Tolerance(1e-4, 1e-5),
    "float16": Tolerance(None, 5e-3),
    "int8": Tolerance(None, 5e-2),
}
"""By the precision of the exported weights."""


class ForeignEngine(Protocol):
    """Another engine with an exported model. It gets text, so that its tokenisation is compared too."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target; the end symbol may be left out."""

    def translate(self, lines: Sequence[str], bounds: Sequence[int]) -> list[str]:
        """Returns the greedy translation of each line, cut after as many tokens as `bounds` has for the line."""


class TextDifference(NamedTuple):
    """A sentence whose greedy translations differ."""

    source: str
    here: str
    there: str
    reason: str | None  # None: unexplained


class Parity(NamedTuple):
    """Two engines compared on the same sentences."""

    sentences: int
    tokens: int
    greatest: float  # difference of a token's log-probability
    mean: float
    differences: list[TextDifference]

    @property
    def equal_texts(self) -> int:
        """The number of sentences whose greedy translations are equal."""
        return self.sentences - len(self.differences)

    def fault(self, precision: str) -> str | None:
        """Returns how the engines differ by more than the tolerance of a precision; None where they do not."""
        tolerance = TOLERANCES[precision]
        for name, value, bound in (
            ("greatest", self.greatest, tolerance.greatest),
            ("mean", self.mean, tolerance.mean),
        ):
            # Not `value > bound`, which is False for NaN.
            if bound is not None and not value <= bound:
                return (
                    f"the {name} difference of a token's log-probability is {value:.2e}, and at most {bound:.0e} "
                    f"is allowed in {precision}"
                )
        unexplained = [difference for difference in self.differences if difference.reason is None]
        if precision == "float32" and len(unexplained) > MAX_UNEXPLAINED * self.sentences:
            shown = unexplained[0]
            return (
                f"{len(unexplained)} of {self.sentences} greedy translations differ, such as that of {shown.source!r}: "
                f"{shown.here!r} here and {shown.there!r} there"
            )
        return None

    def as_dictionary(self) -> dict[str, Any]:
        """Returns the comparison as JSON values."""
        return {
            "sentences": self.sentences,
            "tokens": self.tokens,
            "greatest_difference": self.greatest,
            "mean_difference": self.mean,
            "equal_texts": self.equal_texts,
            "text_differences": [difference._asdict() for difference in self.differences],
        }


class ParityError(RuntimeError):
    """An exported model that does not compute what the model computes."""


def odd_sentences(translator: Translator) -> list[str]:
    """Returns lines that engines are known to treat differently: empty, odd characters, symbols, very long."""
    (word,) = translator.source.encode([" again"])
    lines = [
        "",
        "a",
        "A man is riding a bicycle.",
        "Zwei Kinder spielen – trotz Regen – im Garten; „schön“, oder?",
        "  two  spaces, a\ttab and a no-break\u00a0space ",
        "naïve café, 12.345,67 € (−3 %), x² ≠ y…",
        "👩‍👩‍👧 e\u0301 \u200b\ufeff 日本語 العربية",
        "</s> <s> <pad> ⟨/s⟩ ⟨s⟩ ⟨pad⟩ <unk>",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        " ".join(["again"] * -(-LONG_LINE_TOKENS // len(word))),
    ]
    faults = translator.line_faults(lines)
    return [line for place, line in enumerate(lines) if place not in faults]


def compare(translator: Translator, engine: ForeignEngine, lines: Sequence[str], max_positions: int | None) -> Parity:
    """Translates `lines` greedily with both engines, and scores our translations with both.

    Lines and translations beyond `max_positions` of the engine are left out.
    """
    method = SearchMethod(translator.decoding, greedy=True)
    sources = translator.encode_checked(lines, translator.source, "")
    limit = max_positions or translator.max_line_tokens
    kept = [place for place, tokens in enumerate(sources) if len(tokens) < limit - method.decoding.extra_length]
    lines = [lines[place] for place in kept]
    bounds = [len(sources[place]) + 1 + method.decoding.extra_length for place in kept]
    here = [best[0] for best in translator.translate_lines(lines, method)]
    texts = [translation.text for translation in here]
    too_long = {place for place, tokens in enumerate(translator.target.encode(texts)) if len(tokens) >= limit}
    # An engine has no translation of an empty line.
    scored = [place for place, line in enumerate(lines) if line.strip() and place not in too_long]
    pairs = [lines[place] for place in scored], [texts[place] for place in scored]
    gaps = np.concatenate(
        [
            abs(ours[: len(theirs)] - theirs)
            for ours, theirs in zip(translator.token_scores(*pairs), engine.score(*pairs), strict=True)
        ]
    )
    there = dict(zip(scored, engine.translate(pairs[0], [bounds[place] for place in scored]), strict=True))
    differences = [
        TextDifference(lines[place], texts[place], text, _reason(translator, lines[place], texts[place], text))
        for place, text in there.items()
        if text != texts[place]
    ]
    return Parity(len(lines), len(gaps), float(gaps.max()), float(gaps.mean()), differences)


def _reason(translator: Translator, line: str, here: str, there: str) -> str | None:
    """Returns why the greedy translations of `line` differ; None where no reason is found."""
    first = next(_places_of_difference(*translator.target.encode([here, there])))
    gap = abs(float(np.subtract(*(scores[first] for scores in translator.token_scores([line] * 2, [here, there])))))
    greatest = TOLERANCES["float32"].greatest
    assert greatest is not None
    if gap <= 2 * greatest:
        return f"the two tokens at place {first + 1} have log-probabilities that differ by {gap:.1e}"
    return None


def _places_of_difference(left: Sequence[int], right: Sequence[int]) -> Iterator[int]:
    """Yields the places at which two sequences have different tokens, the end of the shorter one last."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            yield place
    yield min(len(left), len(right))
