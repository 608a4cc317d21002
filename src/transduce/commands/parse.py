"""`transduce parse`: parses sentences into trees."""

from collections.abc import Sequence
from itertools import chain, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.input_checks import check_models
from transduce.commands.line_windows import read_windows, runs_and_text, text_progress
from transduce.commands.options import MachineChoice, OutputChoice, SearchChoice, search_method_of_options
from transduce.commands.output_file import check_writable, open_output
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.parsing.parser import Parse


def parse(
    run: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN... [TEXT]", help="Model directories, then a file of sentences (default: standard input)."
        ),
    ],
    output: OutputChoice,
    search: SearchChoice,
    machine: MachineChoice,
    tokenised: Annotated[
        bool, typer.Option("--tokenised", help="The input is tokenised: spaces separate the words, as in a treebank.")
    ] = False,
    unconstrained: Annotated[
        bool, typer.Option("--unconstrained", help="Do not constrain decoding to valid trees, but repair the output.")
    ] = False,
    n_best: Annotated[int, typer.Option(min=1, help="Print the N best trees of each line, as TSV if N > 1.")] = 1,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print TSV: line number, tree, log-probability, length-penalised score.")
    ] = False,
    tag: Annotated[
        str | None, typer.Option(help="Tag for the kind of text, one of those that the model was trained with.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each line.")] = False,
) -> None:
    """Parses sentences, one per line, and writes one tree per line; an empty line stays empty."""
    runs, text = runs_and_text(run)
    check_models(runs)
    from transduce.model_directory.model import Model
    from transduce.parsing.parser import Parser, check_parses, split_treebank_words

    config = Model.read_config(runs[0])
    method = search_method_of_options(config.decoding, search, n_best=n_best)._replace(constrained=not unconstrained)
    check_writable(output.out, overwrite=output.overwrite, inputs=[text])
    check_parses(config.linearisation)
    split_words = str.split if tokenised else split_treebank_words()
    parser = Parser.load(*runs, device=machine.set_up(), precision=machine.precision_name, tag=tag)

    def format_line(line_number: int, best: "Sequence[Parse]") -> list[str]:
        if as_json:
            trees = [
                {"tree": str(tree), "log_probability": tree.log_probability, "score": tree.score, "fault": tree.fault}
                for tree in best
            ]
            return [json_text({"line": line_number, "trees": trees}, ensure_ascii=False)]
        if scores or n_best > 1:
            rows = [f"{line_number}\t{tree}\t{tree.log_probability:.6f}\t{tree.score:.6f}" for tree in best]
            return rows or [f"{line_number}\t\t0.000000\t0.000000"]  # for an empty sentence
        return [str(best[0]) if best else ""]

    windows, _ = read_windows(text)
    lines_before = 0
    with open_output(output.out) as write, text_progress(windows, output.out) as progress:
        for lines in windows:
            parses = parser.parse(list(map(split_words, lines)), method, lines_before=lines_before)
            formatted = starmap(format_line, enumerate(parses, lines_before + 1))
            write("".join(f"{line}\n" for line in chain.from_iterable(formatted)))
            lines_before += len(lines)
            progress.update(lines_before)
