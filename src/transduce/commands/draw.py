"""`transduce draw`: where every layer and head looks, while a sentence is translated."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.options import OverwriteOption
from transduce.commands.output import check_writable
from transduce.storage.named_errors import name_in_errors

__all__ = ["draw"]


def draw(
    run: Annotated[Path, typer.Argument(help="A model directory, as `transduce train` writes it.")],
    sentence: Annotated[str, typer.Argument(help="The sentence to translate.")],
    out: Annotated[Path, typer.Option(help="The picture: a name that ends in .html, .png or .svg.")],
    target: Annotated[str | None, typer.Option(help="The translation to explain, instead of the model's own.")] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Draw the attention of every layer and head while SENTENCE is translated."""
    from transduce import pictures

    # A wrong name is told before the model is read.
    pictures.picture_format(out)
    check_writable(out, overwrite=overwrite)

    from transduce.translation.translator import Translator

    explanation = Translator.load(run).explain(sentence, target=target)
    with name_in_errors(out):
        pictures.draw(explanation, out)
    say(f"{explanation.source_text} → {explanation.target_text}")
    print(out)
