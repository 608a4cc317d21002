"""Checks the parity of an exported model: its engine must score and translate sentences as our engine does."""

import importlib
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from transduce.runtime.extras import install_command
from transduce.text.token_vocabulary import share_subwords
from transduce.translation.engine import SearchRules
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

LONG_LINE_TOKENS = 600  # more than the 512 positions that many models have
MAX_UNEXPLAINED = 0.01  # largest share of sentences with unexplained differences in float32


class Tolerance(NamedTuple):
    """The largest differences, in nats, that an export may have."""

    # The largest difference of a token's log-probability. None if it is not limited, because with a low precision,
    # rounding greatly changes the log-probabilities of improbable tokens.
    greatest: float | None
    mean: float  # the mean difference of a token's log-probability
    text: float  # the mean log-probability per token that the engine's greedy translations lose, compared with ours


TOLERANCES = {
    "float32": Tolerance(1e-4, 1e-5, 1e-2),
    "float16": Tolerance(None, 5e-3, 5e-2),
    "int8": Tolerance(None, 5e-2, 2e-1),
}
"""The tolerance for each precision of the exported weights."""


def import_engine(name: str, title: str, extra: str) -> ModuleType:
    """Imports and returns the package `name` of an engine.

    Raises ValueError if it is not installed. The message calls the engine `title` and names the extra to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"{title} is not installed: {install_command(extra)}") from None


class ForeignEngine(Protocol):
    """Another engine that runs an exported model. It receives text, so that its tokenisation is compared as well."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target. EOS may be left out."""

    def translate(self, lines: Sequence[str], bounds: Sequence[int]) -> "list[EngineTranslation]":
        """Translates each line with greedy search.

        `bounds` contains the largest number of tokens for each translation. Longer translations are truncated.
        """


class EngineTranslation(NamedTuple):
    """A translation that another engine generated."""

    text: str
    tokens: list[int]  # without EOS


class TextDifference(NamedTuple):
    """A sentence for which the greedy translations of the two engines differ."""

    source: str
    transduce: str  # our translation
    engine: str  # the translation of the other engine
    loss: float  # by how much our model prefers our translation, as a difference of log-probabilities per token
    reason: str | None  # why the translations differ; None: unexplained


class Parity(NamedTuple):
    """The result of comparing two engines on the same sentences."""

    sentences: int  # the number of sentences that were compared
    left_out: int  # the number of sentences that were not compared, for example because they are empty or too long
    tokens: int  # the number of tokens whose log-probabilities were compared
    greatest: float  # the largest difference of a token's log-probability
    mean: float  # the mean difference of a token's log-probability
    differences: list[TextDifference]

    @property
    def equal_texts(self) -> int:
        """The number of sentences for which the greedy translations are equal."""
        return self.sentences - len(self.differences)

    @property
    def text_loss(self) -> float:
        """The mean of `TextDifference.loss` over all sentences, in which equal translations count as 0."""
        return sum(difference.loss for difference in self.differences) / self.sentences

    def fault(self, precision: str) -> str | None:
        """Returns a description of a difference that exceeds the tolerance for a precision, or None if none does."""
        tolerance = TOLERANCES[precision]
        for name, value, bound in (
            ("the greatest difference of a token's log-probability", self.greatest, tolerance.greatest),
            ("the mean difference of a token's log-probability", self.mean, tolerance.mean),
            ("the mean loss of a token's log-probability in greedy translations", self.text_loss, tolerance.text),
        ):
            # Not `value > bound`, which is False for NaN.
            if bound is not None and not value <= bound:
                return f"{name} is {value:.2e}, and at most {bound:.0e} is allowed in {precision}"
        unexplained = [difference for difference in self.differences if difference.reason is None]
        if precision == "float32" and len(unexplained) > MAX_UNEXPLAINED * self.sentences:
            first = unexplained[0]
            return (
                f"{len(unexplained)} of {self.sentences} greedy translations differ, such as that of {first.source!r}: "
                f"transduce writes {first.transduce!r}, the engine {first.engine!r}"
            )
        return None

    def as_dictionary(self) -> dict[str, Any]:
        """Returns the result of the comparison as JSON values."""
        return {
            "sentences": self.sentences,
            "left_out": self.left_out,
            "tokens": self.tokens,
            "greatest_difference": self.greatest,
            "mean_difference": self.mean,
            "equal_texts": self.equal_texts,
            "text_loss": self.text_loss,
            "text_differences": [difference._asdict() for difference in self.differences],
        }


class ParityError(RuntimeError):
    """Raised when an exported model does not compute the same results as the original model."""


def odd_sentences(translator: Translator) -> list[str]:
    """Returns lines that different engines are likely to treat differently.

    Among them are an empty line, lines with unusual characters or symbols, and a very long line. Lines that the
    translator rejects are left out.
    """
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
    return [line for index, line in enumerate(lines) if index not in faults]


def compare(translator: Translator, engine: ForeignEngine, lines: Sequence[str], max_positions: int | None) -> Parity:
    """Translates `lines` with both engines by greedy search, and scores our translations with both engines.

    Empty lines are left out, and so are lines and translations that are too long for the engine, which supports
    `max_positions` positions. Raises ParityError if no line is left, if the engine splits a translation into different
    tokens, if it decodes the same tokens to a different text, or if it generates a banned token.
    """
    method = SearchMethod(translator.decoding, greedy=True)
    limit = min(max_positions or translator.max_line_tokens + 1, translator.max_line_tokens + 1)
    sources = translator.encode_checked(lines, translator.source, "")
    indices = [
        index for index, tokens in enumerate(sources) if translator.is_translated(lines[index]) and len(tokens) < limit
    ]
    ours = [best[0] for best in translator.translate_lines([lines[index] for index in indices], method)]
    # An engine may use a single tokenizer for both sides, which treats white space as in the source. Translations that
    # this tokenizer splits differently are left out.
    texts = [each.text for each in ours]
    encoded = translator.target.encode(texts)
    is_shared = share_subwords((translator.source, translator.target))
    by_engine = translator.source.encode(texts) if is_shared else encoded
    fits = [len(tokens) < limit and tokens == others for tokens, others in zip(encoded, by_engine, strict=True)]
    indices = [index for index, fit in zip(indices, fits, strict=True) if fit]
    ours = [each for each, fit in zip(ours, fits, strict=True) if fit]
    if not indices:
        raise ParityError("no sentence fits into the model and the engine, so that they cannot be compared")
    compared, texts = [lines[index] for index in indices], [each.text for each in ours]
    scores = list(zip(translator.token_scores(compared, texts), engine.score(compared, texts), strict=True))
    for text, (left, right) in zip(texts, scores, strict=True):
        if len(left) - len(right) not in (0, 1):  # the engine may leave out EOS
            raise ParityError(f"the engine splits {text!r} into {len(right)} tokens, transduce into {len(left) - 1}")
    gaps = np.concatenate([abs(left[: len(right)] - right) for left, right in scores])
    bounds = [min(len(sources[index]) + 1 + method.decoding.extra_length, limit) for index in indices]
    translated = engine.translate(compared, bounds)
    banned = SearchRules.of(translator.torch_engine.symbols, translator.target).banned
    differences = []
    for line, each, theirs in zip(compared, ours, translated, strict=True):
        if chosen := [token for token in theirs.tokens if token in banned]:
            (subword,) = translator.target.readable_subwords(chosen[:1])
            raise ParityError(f"the engine writes {subword} in its translation of {line!r}, which transduce never does")
        if each.text == theirs.text:
            continue
        if list(each.tokens) == theirs.tokens:
            raise ParityError(
                f"the engine makes another text of the same tokens: transduce writes {each.text!r}, the engine "
                f"{theirs.text!r}"
            )
        differences.append(_difference(translator, line, each, theirs))
    left_out = len(lines) - len(indices)
    return Parity(len(indices), left_out, len(gaps), float(gaps.max()), float(gaps.mean()), differences)


def _difference(translator: Translator, line: str, ours: Translation, theirs: EngineTranslation) -> TextDifference:
    """Describes how the greedy translations of `line` differ, with the reason if one is found."""
    if len(theirs.tokens) > translator.max_line_tokens:
        return TextDifference(line, ours.text, theirs.text, math.inf, None)
    (source,) = translator.encode_sources([line])
    scores = translator.score_tokens([(source, ours.tokens), (source, theirs.tokens)])
    loss = max(0.0, float(scores[0].mean() - scores[1].mean()))
    # The first token that differs, or the end of the shorter translation.
    pairs = zip(ours.tokens, theirs.tokens, strict=False)
    shorter = min(len(ours.tokens), len(theirs.tokens))
    first = next((index for index, (left, right) in enumerate(pairs) if left != right), shorter)
    gap = abs(float(scores[0][first] - scores[1][first]))
    greatest = TOLERANCES["float32"].greatest
    assert greatest is not None
    reason = None
    if not theirs.tokens:
        reason = "the engine ends before the first token, which transduce never does"
    elif gap <= 2 * greatest:
        reason = f"the two tokens at place {first + 1} have log-probabilities that differ by {gap:.1e}"
    return TextDifference(line, ours.text, theirs.text, loss, reason)
