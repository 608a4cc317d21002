"""`transduce score`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.output import open_output


def score(
    run: Annotated[list[Path], typer.Argument(help="Model directories; several are an ensemble.")],
    source: Annotated[str, typer.Option(help="The text.")],
    target: Annotated[str, typer.Option(help="Its translation, a line a line.")],
    batch_tokens: Annotated[int, typer.Option(min=1, help="Positions scored at once.")] = 4096,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or one of several: cuda:1.")] = "auto",
) -> None:
    """Prints the log-probability of each given translation, the end symbol included."""
    from transduce.runtime.device import choose_device, keep_freed_memory
    from transduce.text.lines import read_texts
    from transduce.translation.translator import Translator

    keep_freed_memory()
    sources, targets = read_texts(source, target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines and {target} has {len(targets)}: they must be equally many"
        )
    translator = Translator.load(*run, device=str(choose_device(device)))
    scores = translator.score(sources, targets, batch_tokens=batch_tokens)
    with open_output(None) as write:
        write("".join(f"{value:.6f}\n" for value in scores))
