"""The results that a translator returns: translations, with or without the attention weights of the model."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.search.beam import Hypothesis
from transduce.text.token_vocabulary import TokenVocabulary


class Translation(NamedTuple):
    """A translation of one line; `str()` returns its text.

    `score` is the value by which the search ranks hypotheses. After beam search, it is the log-probability divided by
    the length penalty; after any other search, it is the log-probability itself.
    """

    text: str
    log_probability: float  # natural logarithm, including the EOS token
    score: float
    tokens: list[int]  # without the EOS token

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, log_probability={self.log_probability:.3f}, score={self.score:.3f})"


def one_line(text: str) -> str:
    """Replaces newlines with spaces, so that each line of input results in exactly one line of output."""
    return text.replace("\n", " ")


def decoded(hypotheses: Sequence[Hypothesis], target: TokenVocabulary) -> list[Translation]:
    """Decodes hypotheses to single-line translations; if several have the same text, only the first is kept."""
    texts = map(one_line, target.decode([hypothesis.tokens for hypothesis in hypotheses]))
    translations: dict[str, Translation] = {}
    for text, hypothesis in zip(texts, hypotheses, strict=True):
        translation = Translation(text, hypothesis.log_probability, hypothesis.score, hypothesis.tokens)
        translations.setdefault(text, translation)
    return list(translations.values())


EMPTY = Translation("", 0.0, 0.0, [])  # the translation of an empty line


class Explanation(NamedTuple):
    """A translation together with all attention weights of the model.

    `source` and `target` contain readable subwords, ending with "</s>" for EOS; "▁" marks the beginning of a word. In
    the matrices of the decoder, row t belongs to the step that produced `target[t]`. The input of this step was
    `target[t − 1]`, or "<s>" for BOS in the first step.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    source_text: str
    target_text: str
    encoder: tuple[NDArray[np.float32], ...]  # for each layer: [heads source source]
    decoder: tuple[NDArray[np.float32], ...]  # for each layer: [heads target target]
    cross: tuple[NDArray[np.float32], ...]  # for each layer: [heads target source]
    tag_count: int = 0  # number of source tags at the beginning of `source`

    def __repr__(self) -> str:
        layers = f"{len(self.encoder)} encoder and {len(self.decoder)} decoder layers"
        return f"Explanation({self.source_text!r} → {self.target_text!r}, {layers})"
