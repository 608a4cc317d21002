"""`transduce score`: prints the log-probability of each given translation."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.options import DeviceOption, FromOption, TagOption, ToOption
from transduce.commands.output import open_output
from transduce.commands.paired_texts import read_paired_texts


def score(
    run: Annotated[list[Path], typer.Argument(help="Model directories; several are an ensemble.")],
    source: Annotated[str, typer.Option(help="The source text.")],
    target: Annotated[str, typer.Option(help="Its translation; line n translates line n.")],
    to: ToOption = None,
    source_language: FromOption = None,
    tag: TagOption = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Positions scored at once.")] = 4096,
    device: DeviceOption = "auto",
) -> None:
    """Prints the log-probability of each given translation, the end symbol included."""
    from transduce.runtime.device import set_up_device
    from transduce.translation.translator import Translator

    chosen = set_up_device(device)
    sources, targets = read_paired_texts(source, target)
    translator = Translator.load(*run, device=str(chosen), to=to, source_language=source_language, tag=tag)
    scores = translator.score(sources, targets, batch_tokens=batch_tokens)
    with open_output(None) as write:
        write("".join(f"{log_probability:.6f}\n" for log_probability in scores))
