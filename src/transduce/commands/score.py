"""`transduce score`: prints the log-probability of each given translation."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.input_checks import check_models
from transduce.commands.options import MachineChoice, TargetChoice
from transduce.commands.output_file import open_output
from transduce.commands.paired_texts import read_paired_texts


def score(
    run: Annotated[list[Path], typer.Argument(help="Model directories; several form an ensemble.")],
    source: Annotated[str, typer.Option(help="File with the source text.")],
    target: Annotated[str, typer.Option(help="File with the translations, one per source line.")],
    languages: TargetChoice,
    machine: MachineChoice,
) -> None:
    """Prints the log-probability of each given translation, including its end-of-sentence token."""
    check_models(run)
    from transduce.translation.translator import Translator

    device = machine.set_up()
    sources, targets = read_paired_texts(source, target)
    request = languages.request()._asdict()
    translator = Translator.load(*run, device=device, precision=machine.precision_name, **request)
    scores = translator.score(sources, targets)
    with open_output(None) as write:
        write("".join(f"{log_probability:.6f}\n" for log_probability in scores))
