"""Estimates the quality of translations from the model's own probabilities, and finds reasons to doubt them.

The score of a translation is the geometric mean of its token probabilities. A `Calibration` is fitted to a validation
set and converts the score to a confidence, which is the chrF of translations with a similar score in that set.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field
from sacrebleu.metrics.chrf import CHRF

from transduce.measure.calibration import ReliabilityCurve, fit_isotonic, reliability_curve
from transduce.model_directory.manifest import fingerprint
from transduce.settings import Spec, parse_json, validated
from transduce.storage.atomic import atomic_write_text
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.text.copied_names import Names
from transduce.text.repetition import is_loop
from transduce.translation.results import Translation

CONFIDENCE = "confidence.json"

LEAST_PAIRS = 20
DOUBTFUL = 0.05  # a translation is doubtful if its score is below this quantile of the validation set
RARE = 0.002  # share of the validation set below, and also above, the usual range of length ratios

NUMBER = re.compile(r"\d+")


class Assessment(NamedTuple):
    """The confidence in a translation, from 0 to 1, and the reasons to doubt the translation, if there are any."""

    confidence: float
    doubts: tuple[str, ...]


class Reliability(Spec):
    """How well the confidence agrees with the quality of translations, before and after calibration."""

    before: ReliabilityCurve  # of the raw scores
    after: ReliabilityCurve  # of the calibrated scores


class Calibration(Spec):
    """Converts scores to confidences; it is fitted to a validation set and stored in `confidence.json`."""

    version: Literal[1] = 1
    model: str | None = None  # the fingerprint of the model directory
    sentences: int = Field(ge=1)
    scores: tuple[float, ...]  # knots of an isotonic regression, in ascending order
    qualities: tuple[float, ...]  # chrF / 100 at each knot
    doubtful: float  # a translation with a lower score is doubtful
    length_ratio: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]  # usual range, output / input
    reliability: Reliability | None = None
    names: Names | None = None  # finds names that are missing from a translation

    @classmethod
    def fit(
        cls,
        sources: Sequence[str],
        translations: Sequence[Translation],
        references: Sequence[str],
        *,
        names: Names | None = None,
        reliability: Reliability | None = None,
    ) -> Self:
        """Fits a calibration to the translations of a validation set.

        Lines whose source or translation is empty are left out. Raises ValueError if fewer than 20 lines remain.
        """
        rows = [
            (raw_confidence(translation), _chrf(translation.text, reference), _length_ratio(source, translation.text))
            for source, translation, reference in zip(sources, translations, references, strict=True)
            if source.strip() and translation.text.strip()
        ]
        _check_number(len(rows), LEAST_PAIRS)
        scores, qualities, ratios = (np.array(column) for column in zip(*rows, strict=True))
        knots = fit_isotonic(scores.tolist(), qualities.tolist())
        low, high = np.quantile(ratios, [RARE, 1 - RARE])
        return cls(
            sentences=len(rows),
            scores=tuple(knots[0]),
            qualities=tuple(knots[1]),
            doubtful=float(np.quantile(scores, DOUBTFUL)),
            length_ratio=(float(low) / 1.1, float(high) * 1.1),
            names=names,
            reliability=reliability,
        )

    @classmethod
    def read(cls, run: Path) -> Self:
        """Reads the calibration in a model directory.

        Raises ValueError if the directory has no calibration, or if the calibration is damaged or was made for other
        weights or settings.
        """
        path = run / CONFIDENCE
        if not path.exists():
            raise ValueError(f"{run} has no {CONFIDENCE}: make it with `transduce calibrate {run}`")
        read = validated(cls, parse_json(read_regular_file(path, MAX_JSON_BYTES), place=str(path)), place=str(path))
        if read.model not in (None, fingerprint(run)):
            raise ValueError(
                f"{path} was made for other weights or settings than {run} has now: make it again with "
                f"`transduce calibrate {run}`, or delete it"
            )
        return read

    def write(self, run: Path) -> None:
        """Writes the calibration to a model directory, together with the fingerprint of the model in that directory."""
        written = self.replaced(model=fingerprint(run))
        atomic_write_text(run / CONFIDENCE, written.model_dump_json(indent=2) + "\n")

    def assess(self, source: str, translation: Translation) -> Assessment:
        """Returns the confidence in a translation and the reasons to doubt it.

        If the source is empty, the confidence is 1 and there are no doubts.
        """
        score, output = raw_confidence(translation), translation.text
        if not source.strip():
            return Assessment(1.0, ())
        low, high = self.length_ratio
        ratio = _length_ratio(source, output)
        doubts = {
            "low": score < self.doubtful,
            "repetition": is_loop(output, source),
            "numbers": Counter(NUMBER.findall(source)) != Counter(NUMBER.findall(output)),
            "names": self.names is not None and bool(self.names.missing(source, output)),
            "short": ratio < low,
            "long": ratio > high,
        }
        confidence = float(np.interp(score, self.scores, self.qualities))
        return Assessment(confidence, tuple(name for name, is_doubtful in doubts.items() if is_doubtful))


def measure_reliability(
    sources: Sequence[str], translations: Sequence[Translation], references: Sequence[str]
) -> Reliability:
    """Measures how reliable the confidence is, using two-fold cross-validation on a validation set.

    Each half of the lines is assessed with a calibration that was fitted to the other half. Raises ValueError if there
    are fewer than 40 lines in which neither the source nor the translation is empty.
    """
    lines = list(zip(sources, translations, references, strict=True))
    lines = [line for line in lines if line[0].strip() and line[1].text.strip()]
    _check_number(len(lines), 2 * LEAST_PAIRS)
    halves = lines[::2], lines[1::2]
    fitted = [Calibration.fit(*zip(*half, strict=True)) for half in halves]
    predictions = [
        calibration.assess(source, translation).confidence
        for calibration, half in zip(reversed(fitted), halves, strict=True)
        for source, translation, _ in half
    ]
    qualities = [_chrf(translation.text, reference) for half in halves for _, translation, reference in half]
    scores = [raw_confidence(translation) for half in halves for _, translation, _ in half]
    return Reliability(before=reliability_curve(scores, qualities), after=reliability_curve(predictions, qualities))


def raw_confidence(translation: Translation) -> float:
    """Returns the geometric mean of the token probabilities, including that of EOS; it lies between 0 and 1."""
    return math.exp(translation.log_probability / (len(translation.tokens) + 1))


def _check_number(number: int, least: int) -> None:
    """Raises ValueError if `number`, which counts the translations, is less than `least`."""
    if number < least:
        raise ValueError(f"{number} translations are too few to calibrate: give {least} or more")


def _chrf(output: str, reference: str) -> float:
    return float(CHRF().sentence_score(output, [reference]).score) / 100


def _length_ratio(source: str, output: str) -> float:
    return max(len(output.strip()), 0.5) / max(len(source.strip()), 1)
