"""Validation on several corpora, such as one a direction: each is measured, and their means select the model."""

import math
from collections.abc import Iterable, Mapping
from statistics import fmean

from transduce.model import TranslationModel
from transduce.trainer.validation import ParallelText, Validation, ValidationResult, ValidationScore, perplexity

__all__ = ["JointValidation"]


class JointValidation:
    """Measures models on several corpora; has the methods of `Validation`."""

    def __init__(self, validations: Mapping[str, Validation]) -> None:
        self.validations = validations
        corpora = [validation.corpus for validation in validations.values()]
        self.corpus = ParallelText(
            [line for corpus in corpora for line in corpus.source],
            [line for corpus in corpora for line in corpus.target],
        )

    def check_memory(self, model: TranslationModel) -> None:
        """Raises RuntimeError where the longest pair of a corpus alone does not fit into memory."""
        for validation in self.validations.values():
            validation.check_memory(model)

    def check(self, model: TranslationModel, *, will_translate: bool = True) -> None:
        """Raises ValueError where a line is too long for `model`, or where its output cannot be measured."""
        for name, validation in self.validations.items():
            try:
                validation.check(model, will_translate=will_translate)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None

    def __call__(self, model: TranslationModel, *, translate: bool = True) -> ValidationResult:
        """Returns the means over the corpora, each of which counts as much, and the outputs of all.

        The perplexity is the geometric mean, that of the mean loss.
        """
        parts = {name: validation(model, translate=translate) for name, validation in self.validations.items()}
        results = list(parts.values())
        return ValidationResult(
            fmean(result.loss for result in results),
            perplexity(fmean(math.log(result.perplexity) for result in results)),
            fmean(result.accuracy for result in results),
            _mean_score(result.score for result in results),
            [output for result in results for output in result.outputs],
            parts,
        )


def _mean_score(scores: Iterable[ValidationScore | None]) -> ValidationScore | None:
    """Returns the mean of scores of one metric; None where a corpus was not translated."""
    measured = [score for score in scores if score is not None]
    if not measured:
        return None
    signatures = " and ".join(dict.fromkeys(score.signature for score in measured))
    return ValidationScore(
        measured[0].metric, fmean(score.score for score in measured), f"mean:{len(measured)}|{signatures}"
    )
