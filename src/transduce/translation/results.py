"""Results of a translator: a translation, and a translation with its attention weights."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.search.beam import Hypothesis
from transduce.text.token_vocabulary import TokenVocabulary


class Translation(NamedTuple):
    """One translation of a line. `str()` and `print` give its text.

    `score` ranks the hypotheses: log-probability / length penalty in a beam search, else the log-probability.
    """

    text: str
    log_probability: float  # natural logarithm, including the end symbol
    score: float
    tokens: list[int]  # without the end symbol

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, log_probability={self.log_probability:.3f}, score={self.score:.3f})"


def one_line(text: str) -> str:
    """Replaces newlines with spaces, so that each input line gives one output line."""
    return text.replace("\n", " ")


def decoded(hypotheses: Sequence[Hypothesis], target: TokenVocabulary) -> list[Translation]:
    """Decodes hypotheses to one-line texts; of several hypotheses with the same text only the first is kept."""
    texts = map(one_line, target.decode([hypothesis.tokens for hypothesis in hypotheses]))
    translations: dict[str, Translation] = {}
    for text, hypothesis in zip(texts, hypotheses, strict=True):
        translation = Translation(text, hypothesis.log_probability, hypothesis.score, hypothesis.tokens)
        translations.setdefault(text, translation)
    return list(translations.values())


EMPTY = Translation("", 0.0, 0.0, [])  # the translation of an empty line


class Explanation(NamedTuple):
    """A translation with all its attention weights.

    `source` and `target` are readable subwords, "</s>" included; "▁" begins a word. Row t of a decoder matrix is the
    step that wrote `target[t]`; its input was `target[t − 1]`, or "<s>".
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_text: str
    target_text: str
    encoder: tuple[NDArray[np.float32], ...]  # per layer: [heads source source]
    decoder: tuple[NDArray[np.float32], ...]  # per layer: [heads target target]
    cross: tuple[NDArray[np.float32], ...]  # per layer: [heads target source]
    tag_count: int = 0  # number of tags at the beginning of `source`

    def __repr__(self) -> str:
        layers = f"{len(self.encoder)} encoder and {len(self.decoder)} decoder layers"
        return f"Explanation({self.source_text!r} → {self.target_text!r}, {layers})"
