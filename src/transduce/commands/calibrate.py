"""`transduce calibrate`: calibrates the confidence in a model's translations on its validation set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.console import say
from transduce.commands.input_checks import check_models
from transduce.commands.options import MachineChoice, OverwriteOption
from transduce.commands.output_file import check_writable, lock_output

if TYPE_CHECKING:
    from transduce.corpus.corpus_kinds import CorpusSpec
    from transduce.corpus.readers import ParallelText
    from transduce.text.copied_names import Names


def calibrate(
    run: Annotated[Path, typer.Argument(help="Model directory.")],
    machine: MachineChoice,
    test: Annotated[
        str, typer.Option(help="Test set of the recipe to calibrate on; do not evaluate the model on it afterwards.")
    ] = "validation",
    out: Annotated[
        Path | None, typer.Option(help="Plot confidence against chrF to this file, which ends in .html, .png or .svg.")
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Calibrates the confidence of `translate --confidence` on a validation set, and writes RUN/confidence.json."""
    check_models([run])
    from transduce import pages
    from transduce.corpus.readers import read_parallel_text
    from transduce.evaluation.score_test_set import request_for_corpus
    from transduce.model_directory.model import Model
    from transduce.recipe.corpora_of_run import named_test_set
    from transduce.translation.confidence import CONFIDENCE, Calibration, measure_reliability
    from transduce.translation.translator import Translator

    if out is not None:
        pages.picture_format(out)
    check_writable(out, overwrite=overwrite)
    config = Model.read_config(run)
    lock_output(run / CONFIDENCE, "the calibration")
    if config.linearisation is not None:
        raise ValueError(f"{run} parses and does not translate: confidence is for translations")
    corpus = named_test_set(run, test)
    text = read_parallel_text(corpus)
    request = request_for_corpus(config, corpus)._asdict()
    translator = Translator.load(run, device=machine.set_up(), precision=machine.precision_name, **request)
    best = [translations[0] for translations in translator.translate_lines(text.source)]
    reliability = measure_reliability(text.source, best, text.target)
    names = _learn_names(run, corpus, text)
    calibration = Calibration.fit(text.source, best, text.target, names=names, reliability=reliability)
    calibration.write(run)
    say(f"{run / CONFIDENCE} is fitted to {calibration.sentences:,} sentences")
    if out is not None:
        pages.draw_calibration(reliability.before, reliability.after, out)
        say(f"{out} shows confidence and chrF")
    print(f"calibration error  before {reliability.before.error:.3f}  after {reliability.after.error:.3f}")


def _learn_names(run: Path, corpus: "CorpusSpec", text: "ParallelText") -> "Names":
    """Learns from the training text which words are names, so that translations can be checked for missing names.

    Prints how many names are known, whether unknown capitalised words count as names, and the share of references that
    seem to lack a name. If the training text cannot be read, no names are known, and only the rule for unknown words
    can apply.
    """
    from transduce.recipe.corpora_of_run import training_pairs
    from transduce.text.copied_names import Names

    held_out = list(zip(text.source, text.target, strict=True))
    try:
        names = Names.learn(training_pairs(run, corpus), held_out)
    except (ValueError, OSError) as error:
        say(f"note: the training text cannot be read, so that no names are known: {error}")
        names = Names.learn((), held_out)
    unknown = "no unknown words" if names.ordinary is None else "unknown words with a capital letter"
    share = names.false_alarms(held_out)
    say(f"names: {len(names.known):,} known ones and {unknown}; {share:.1%} of the references lack one")
    return names
