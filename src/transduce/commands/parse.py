"""`transduce parse`: parses sentences into trees."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.line_windows import read_windows, runs_and_text, text_progress
from transduce.commands.options import MachineChoice, OutputChoice, SearchChoice, search_method_of_options
from transduce.commands.output_file import check_writable, open_output
from transduce.runtime.json_text import json_text

if TYPE_CHECKING:
    from transduce.parsing.parser import Parse


def parse(
    run: Annotated[list[Path], typer.Argument(metavar="RUN... [TEXT]", help="Parsers, then a file of sentences.")],
    output: OutputChoice,
    search: SearchChoice,
    machine: MachineChoice,
    tokenised: Annotated[bool, typer.Option(help="The words stand between spaces, as in a treebank.")] = False,
    unconstrained: Annotated[bool, typer.Option(help="Let the model write any symbols, and repair them.")] = False,
    n_best: Annotated[int, typer.Option(min=1, help="Print this many trees of each line, as TSV.")] = 1,
    scores: Annotated[bool, typer.Option(help="TSV: line number, tree, log-probability, penalised score.")] = False,
    tag: Annotated[str | None, typer.Option(help="Kind of text: one of the tags of the training.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each line.")] = False,
) -> None:
    """Parses sentences; one line in gives one tree out, and an empty line stays empty."""
    from transduce.model_directory.model import Model
    from transduce.parsing.parser import Parser, split_treebank_words

    runs, text = runs_and_text(run)
    method = search_method_of_options(Model.read_config(runs[0]).decoding, search, n_best=n_best)._replace(
        constrained=not unconstrained
    )
    check_writable(output.out, overwrite=output.overwrite)
    split_words = str.split if tokenised else split_treebank_words()
    parser = Parser.load(*runs, device=machine.set_up(), precision=machine.precision_name, tag=tag)

    def parse_lines(lines: list[str], lines_before: int) -> list[str]:
        parses = parser.parse(list(map(split_words, lines)), method, lines_before=lines_before)
        format_line = _as_json if as_json else _as_table if scores or n_best > 1 else _as_tree
        return [line for number, best in enumerate(parses, lines_before + 1) for line in format_line(number, best)]

    windows, _ = read_windows(text)
    _parse_windows(parse_lines, windows, output.out)


def _parse_windows(
    parse_lines: Callable[[list[str], int], list[str]], windows: Iterable[list[str]], out: Path | None
) -> None:
    """Parses and writes window after window."""
    lines_before = 0
    with open_output(out) as write, text_progress(windows, out) as progress:
        for lines in windows:
            write("".join(f"{line}\n" for line in parse_lines(lines, lines_before)))
            lines_before += len(lines)
            progress.update(lines_before)


def _as_tree(number: int, best: "Sequence[Parse]") -> list[str]:
    """Returns the line of the best tree, empty for an empty sentence."""
    return [str(best[0]) if best else ""]


def _as_table(number: int, best: "Sequence[Parse]") -> list[str]:
    """Returns a line of tab-separated values for each tree, or one without a tree for an empty sentence."""
    rows = [f"{number}\t{parse}\t{parse.log_probability:.6f}\t{parse.score:.6f}" for parse in best]
    return rows or [f"{number}\t\t0.000000\t0.000000"]


def _as_json(number: int, best: "Sequence[Parse]") -> list[str]:
    """Returns the JSON of a line."""
    trees = [
        {"tree": str(parse), "log_probability": parse.log_probability, "score": parse.score, "fault": parse.fault}
        for parse in best
    ]
    return [json_text({"line": number, "trees": trees}, ensure_ascii=False)]
