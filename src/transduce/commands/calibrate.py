"""`transduce calibrate`: fits the confidence in a model's translations to its validation set."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.options import DeviceOption, PrecisionName, PrecisionOption, ThreadsOption


def calibrate(
    run: Annotated[Path, typer.Argument(help="A model directory.")],
    test: Annotated[
        str, typer.Option(help="A test set of the recipe; not one on which the model is measured afterwards.")
    ] = "validation",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = PrecisionName.FLOAT32,
) -> None:
    """Fits the confidence of `translate --confidence` to a validation set, and writes RUN/confidence.json."""
    from transduce.model_directory import Model
    from transduce.runtime.device import set_up_device
    from transduce.trainer.validation import named_test_set, read_parallel_text
    from transduce.translation.confidence import CONFIDENCE, Calibration, errors_before_and_after
    from transduce.translation.source_request import request_for_corpus
    from transduce.translation.translator import Translator

    config = Model.read_config(run)
    if config.linearisation is not None:
        raise ValueError(f"{run} parses and does not translate: confidence is for translations")
    corpus = named_test_set(run, test)
    text = read_parallel_text(corpus)
    chosen, request = str(set_up_device(device, threads)), request_for_corpus(config, corpus)
    translator = Translator.load(run, device=chosen, precision=precision.value, **request._asdict())
    best = [translations[0] for translations in translator.translate_lines(text.source)]
    before, after = errors_before_and_after(text.source, best, text.target)
    Calibration.fit(text.source, best, text.target).write(run)
    say(f"{run / CONFIDENCE} is fitted to {len(best):,} sentences")
    print(f"calibration error  before {before:.3f}  after {after:.3f}")
