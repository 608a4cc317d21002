"""An exported folder in Marian, by its Python package `pymarian`."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from transduce.exchange.marian_format import MODEL, marian_tokens, vocabulary_files
from transduce.exchange.parity import EngineTranslation
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.translation.results import one_line

if TYPE_CHECKING:
    from transduce.model_directory import Model

__all__ = ["MarianEngine"]

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
        self._source_tags: tuple[int, ...] = ()
        self._ids = {string: token for token, string in enumerate(marian_tokens(model, model.target))}
        self._settings: dict[str, Any] = {
            "models": str(folder / MODEL),
            "vocabs": [str(folder / name) for name in vocabulary_files(model)],
            "beam_size": 1,
            "normalize": 0,
            "word_scores": True,
            "n_best": True,
            "max_length": 4096,
            "mini_batch": 16,
            "maxi_batch": 4,
            "cpu_threads": 1,
            "workspace": WORKSPACE,
            "quiet": True,
        }
        self._translator = pymarian.Translator

    def with_source_tags(self, tags: Sequence[int]) -> "MarianEngine":
        """Returns this engine with ids that it puts before each source."""
        tagged = copy.copy(self)
        tagged._source_tags = tuple(tags)
        return tagged

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target; Marian does not force the end symbol."""
        source_tokens, target_tokens = self._encode_sources(sources), self._target.encode(targets)
        lengths = zip(map(len, source_tokens), map(len, target_tokens), strict=True)
        forced = self._translator(
            **self._settings,
            max_length_factor=1 + max(-(-target // max(source, 1)) for source, target in lengths),
            force_decode=True,
            tsv=True,
            tsv_fields=2,
        )
        pairs = zip(_lines(self._source, source_tokens), _lines(self._target, target_tokens), strict=True)
        results = forced.translate([f"{source}\t{target}" for source, target in pairs])
        rows = [result.split(" ||| ")[2].removeprefix("WordScores= ").split() for result in results]
        return [np.array(row[: len(target)], np.float64) for row, target in zip(rows, target_tokens, strict=True)]

    def translate(self, lines: Sequence[str], bounds: Sequence[int]) -> list[EngineTranslation]:
        """Returns the greedy translation of each line, cut after as many tokens as `bounds` has for the line."""
        tokens = self._encode_sources(lines)
        # Marian bounds a translation by a multiple of the length of its source.
        factors = [-(-bound // len(row)) for row, bound in zip(tokens, bounds, strict=True)]
        rows: list[list[int]] = [[] for _ in lines]
        for factor in sorted(set(factors)):
            places = [place for place, one in enumerate(factors) if one == factor]
            translator = self._translator(**self._settings, max_length_factor=factor)
            results = translator.translate(_lines(self._source, [tokens[place] for place in places]))
            for place, result in zip(places, results, strict=True):
                rows[place] = [self._ids[string] for string in result.split(" ||| ")[1].split()][: bounds[place]]
        return list(map(EngineTranslation, map(one_line, self._target.decode(rows)), rows))

    def _encode_sources(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the tokens of source lines, the tags first."""
        return [[*self._source_tags, *tokens] for tokens in self._source.encode(lines)]


def _lines(side: TokenVocabulary, rows: Sequence[Sequence[int]]) -> list[str]:
    """Returns rows of tokens as lines, a space between two tokens."""
    return [" ".join(side.vocabulary[token] for token in row) for row in rows]
