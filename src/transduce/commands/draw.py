"""`transduce draw`: draws the attention of every layer and head."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.options import OverwriteOption
from transduce.commands.output import check_writable

__all__ = ["draw"]


def draw(
    run: Annotated[Path, typer.Argument(help="A model directory.")],
    sentence: Annotated[str, typer.Argument(help="The sentence to translate.")],
    out: Annotated[Path, typer.Option(help="The picture: a file name that ends in .html, .png or .svg.")],
    target: Annotated[str | None, typer.Option(help="The translation to explain, instead of the model's own.")] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Draws the attention of every layer and head while SENTENCE is translated."""
    from transduce import pictures

    # Checked before the model is read.
    pictures.picture_format(out)
    check_writable(out, overwrite=overwrite)

    from transduce.translation.translator import Translator

    explanation = Translator.load(run).explain(sentence, target=target)
    pictures.draw(explanation, out)
    say(f"{explanation.source_text} → {explanation.target_text}")
    print(out)
