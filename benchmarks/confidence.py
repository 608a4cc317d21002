"""Confidence on Multi30k's test set, on shuffled references and on foreign input.

    transduce calibrate RUN
    python benchmarks/confidence.py RUN

Prints the calibration error before and after, against the references and against shuffled ones; then precision and
recall of a doubt as a sign of French input to a model of English, and the chrF of doubted and other translations.
"""

import argparse
import random
from pathlib import Path

import numpy as np
from data_folder import data_folder
from sacrebleu.metrics.chrf import CHRF

from transduce.measure.calibration import calibration_error
from transduce.translation.confidence import Calibration, raw_confidence
from transduce.translation.translator import Translator


def main() -> None:
    """Translates English and French lines, and prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    corpus = data_folder("multi30k/") / "multi30k"
    english, german, french = (
        (corpus / f"test_2016_flickr.{side}").read_text("utf-8").splitlines() for side in ("en", "de", "fr")
    )
    translator, calibration, scorer = Translator.load(run), Calibration.read(run), CHRF()
    own, foreign = translator.translate_records(english), translator.translate_records(french)
    assessed = [calibration.assess(*pair) for pair in zip(english, own, strict=True)]
    raw, fitted = [raw_confidence(one) for one in own], [one.confidence for one in assessed]
    shuffled = random.Random(1).sample(german, len(german))
    print("| references | mean chrF | mean confidence | error before | error after |\n|---|---|---|---|---|")
    for name, references in (("of the test set", german), ("shuffled", shuffled)):
        pairs = zip(own, references, strict=True)
        quality = [scorer.sentence_score(one.text, [reference]).score / 100 for one, reference in pairs]
        errors = calibration_error(raw, quality), calibration_error(fitted, quality)
        print(f"| {name} | {np.mean(quality):.3f} | {np.mean(fitted):.3f} | {errors[0]:.3f} | {errors[1]:.3f} |")
        if references is german:
            doubted = np.array([bool(one.doubts) for one in assessed])
            means = [float(np.mean(np.array(quality)[mask])) for mask in (doubted, ~doubted)]
    of_french = [calibration.assess(*pair) for pair in zip(french, foreign, strict=True)]
    print("\n| reason for doubt | English | French | precision | recall |\n|---|---|---|---|---|")
    for reason in ("any", "low", "repetition", "numbers", "names", "short", "long"):
        counts = [
            sum(bool(one.doubts) if reason == "any" else reason in one.doubts for one in some)
            for some in (assessed, of_french)
        ]
        precision = counts[1] / sum(counts) if sum(counts) else float("nan")
        print(f"| {reason} | {counts[0]} | {counts[1]} | {precision:.3f} | {counts[1] / len(french):.3f} |")
    print(f"\nchrF of doubted translations {means[0]:.3f}, of the others {means[1]:.3f}")


if __name__ == "__main__":
    main()
