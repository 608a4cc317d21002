"""Minimum Bayes risk decoding (Kumar and Byrne 2004): of several translations, the one most like all of them.

The expected utility of a candidate is its mean chrF with each candidate as the reference (Eikema and Aziz 2020 take
samples of the model). The candidates are samples, or the n best of a beam.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from transduce.measure.pairwise import pairwise_chrf
from transduce.translation.line_translator import BATCH_TOKENS, LineTranslator
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod

__all__ = ["MinimumBayesRisk"]

MAX_CANDIDATES = 1000


class MinimumBayesRisk:
    """Translates lines as a translator does, and chooses among candidates by expected chrF."""

    def __init__(self, translator: LineTranslator, candidates: int) -> None:
        """Raises ValueError for fewer than two candidates, and for more than `MAX_CANDIDATES`."""
        if candidates < 2:
            raise ValueError(f"--mbr {candidates}: one candidate leaves no choice; give 2 or more, such as 16")
        if candidates > MAX_CANDIDATES:
            raise ValueError(f"--mbr {candidates}: give at most {MAX_CANDIDATES:,}, which are compared with each other")
        self.translator, self.candidates = translator, candidates

    def translate_lines(
        self,
        lines: Sequence[str],
        method: SearchMethod | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        lines_before: int = 0,
    ) -> list[list[Translation]]:
        """Returns the chosen translation of each line, whose score is its expected chrF, from 0 to 100.

        Arguments and errors are those of the translator. Raises ValueError for greedy search.
        """
        method = method or SearchMethod(self.translator.decoding)

        def translate(one: SearchMethod) -> list[list[Translation]]:
            return self.translator.translate_lines(
                lines, one, prefixes=prefixes, batch_tokens=batch_tokens, lines_before=lines_before
            )

        lists = [translate(one) for one in self._methods(method)]
        return [[_choose([one for some in of_line for one in some])] for of_line in zip(*lists, strict=True)]

    def _methods(self, method: SearchMethod) -> list[SearchMethod]:
        """Returns the searches that make the candidates: samples by seeds of their own, or one beam."""
        if method.greedy:
            raise ValueError("--mbr chooses among several translations, and greedy search has one: leave --greedy out")
        if method.sampling is not None:
            return [method._replace(seed=_seed_of(method.seed, number)) for number in range(self.candidates)]
        beam = max(method.decoding.beam, self.candidates)
        return [method._replace(decoding=method.decoding.model_copy(update={"beam": beam}), n_best=self.candidates)]


def _seed_of(seed: int, number: int) -> int:
    """Returns the seed of a sample: a hash, so that neighbouring seeds share no sample."""
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _choose(candidates: Sequence[Translation]) -> Translation:
    """Returns the candidate with the largest expected chrF; of equal ones the first."""
    utilities = pairwise_chrf([candidate.text for candidate in candidates]).mean(1)
    best = int(np.argmax(utilities))
    return candidates[best]._replace(score=float(utilities[best]))
