"""`transduce draw`: draws the attention weights of every layer and head, or the parse tree of a sentence."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import say
from transduce.commands.input_checks import check_models
from transduce.commands.options import MachineChoice, OverwriteOption, TargetChoice, refuse_options
from transduce.commands.output_file import check_writable


def draw(
    run: Annotated[Path, typer.Argument(help="Model directory.")],
    sentence: Annotated[str, typer.Argument(help="The sentence to translate or to parse.")],
    out: Annotated[Path, typer.Option(help="Picture to write; the name ends in .html, .png or .svg.")],
    languages: TargetChoice,
    machine: MachineChoice,
    target: Annotated[
        str | None,
        typer.Option(
            help="Translation to draw instead of the model's own; with --tree, the gold tree to compare with."
        ),
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Draw the parse tree of the sentence, if RUN is a parser.")
    ] = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Draws the attention weights of every layer and head for a translation; with --tree, draws a parse tree."""
    from transduce import pages

    # The output file is checked before the model is read, which takes seconds.
    pages.picture_format(out)
    check_writable(out, overwrite=overwrite)
    check_models([run])
    from transduce.translation.translator import Translator

    if tree:
        refuse_options({"--to": languages.to}, "is not for --tree")
        _draw_tree(run, sentence, target, languages.tag, machine, out)
    else:
        request = languages.request()._asdict()
        translator = Translator.load(run, device=machine.set_up(), precision=machine.precision_name, **request)
        explanation = translator.explain(sentence, target=target)
        pages.draw_attention(explanation, out)
        say(f"{explanation.source_text} → {explanation.target_text}")
    print(out)


def _draw_tree(run: Path, sentence: str, gold: str | None, tag: str | None, machine: MachineChoice, out: Path) -> None:
    """Draws the parse tree of `sentence`, and marks the phrases that the gold tree does not have.

    `gold` is in bracket notation. Raises ValueError if it has no words, or if its words are not those of `sentence`.
    """
    from transduce import pages
    from transduce.parsing.parser import Parser, split_treebank_words
    from transduce.parsing.trees import clean_tree, parse_tree, words_of

    gold_tree = None if gold is None else clean_tree(parse_tree(gold))
    if gold is not None and gold_tree is None:
        raise ValueError("--target: the tree has no words")
    words = sentence.split()
    if gold_tree is None or words != words_of(gold_tree):
        words = split_treebank_words()(sentence)
    if not words:
        raise ValueError("there is no word to parse: give a sentence")
    parser = Parser.load(run, device=machine.set_up(), precision=machine.precision_name, tag=tag)
    ((parse, *_),) = parser.parse([words])
    pages.draw_tree(parse.tree, out, other=gold_tree)
    say(str(parse))
