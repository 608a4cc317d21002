"""An exported folder in Marian, by its Python package `pymarian`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from transduce.exchange.marian_format import MODEL, vocabulary_files
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.translation.texts import one_line

if TYPE_CHECKING:
    from transduce.model_directory import Model

__all__ = ["MarianEngine"]

LENGTH_FACTOR = 3  # most tokens of a translation for each token of its source
WORKSPACE = 256  # MiB


class MarianEngine:
    """Marian's decoder with one thread. Lines are tokens between spaces; its log-probabilities have six digits."""

    def __init__(self, folder: Path, model: "Model") -> None:
        """Loads the model; raises ValueError where `pymarian` is not installed."""
        try:
            import pymarian
        except ImportError:
            raise ValueError("Marian is not installed: `pip install 'transduce[marian]'`") from None
        self._source, self._target = model.source, model.target
        self._ids = {string: token for token, string in enumerate(model.target.vocabulary)}
        settings: dict[str, Any] = {
            "models": str(folder / MODEL),
            "vocabs": [str(folder / name) for name in vocabulary_files(model)],
            "beam_size": 1,
            "normalize": 0,
            "word_scores": True,
            "n_best": True,
            "max_length": 4096,
            "max_length_factor": LENGTH_FACTOR,
            "mini_batch": 16,
            "maxi_batch": 4,
            "cpu_threads": 1,
            "workspace": WORKSPACE,
            "quiet": True,
        }
        self._decoder = pymarian.Translator(**settings)
        self._forced = pymarian.Translator(**settings, force_decode=True, tsv=True, tsv_fields=2)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target; Marian does not force the end symbol."""
        tokens = self._target.encode(targets)
        pairs = zip(_lines(self._source, sources), _lines(self._target, targets), strict=True)
        results = self._forced.translate([f"{source}\t{target}" for source, target in pairs])
        rows = [result.split(" ||| ")[2].removeprefix("WordScores= ").split() for result in results]
        return [np.array(row[: len(target)], np.float64) for row, target in zip(rows, tokens, strict=True)]

    def translate(self, lines: Sequence[str], max_tokens: int) -> list[str]:
        """Returns the greedy translation of each line, of at most `max_tokens` tokens."""
        results = self._decoder.translate(_lines(self._source, lines))
        rows = [[self._ids[string] for string in result.split(" ||| ")[1].split()] for result in results]
        return list(map(one_line, self._target.decode([row[:max_tokens] for row in rows])))


def _lines(side: TokenVocabulary, lines: Sequence[str]) -> list[str]:
    """Returns each line as tokens between spaces."""
    return [" ".join(side.vocabulary[token] for token in tokens) for tokens in side.encode(lines)]
