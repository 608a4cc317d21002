"""`transduce translate`: translates text line by line."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.input_checks import check_exist, check_glossary
from transduce.commands.line_windows import read_windows, runs_and_text, translate_windows
from transduce.commands.options import (
    Engine,
    EngineOption,
    GlossaryOption,
    MachineChoice,
    NoRepeatNgramOption,
    OutputChoice,
    SamplingChoice,
    SearchChoice,
    TargetChoice,
    search_method_of_options,
)
from transduce.commands.output_file import check_writable
from transduce.commands.translators import converted, load_translator, read_config, with_glossary

if TYPE_CHECKING:
    from transduce.translation.output_format import OutputFormat


def translate(
    run: Annotated[
        list[Path],
        typer.Argument(metavar="RUN... [TEXT]", help="Model directories, then a text file (default: standard input)."),
    ],
    output: OutputChoice,
    search: SearchChoice,
    languages: TargetChoice,
    sampling: SamplingChoice,
    machine: MachineChoice,
    no_repeat_ngram: NoRepeatNgramOption = None,
    n_best: Annotated[
        int, typer.Option(min=1, help="Print the N best translations of each line, as TSV if N > 1.")
    ] = 1,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print TSV: line number, text, log-probability, length-penalised score.")
    ] = False,
    alignments: Annotated[
        bool,
        typer.Option(
            "--alignments", help="Print TSV: text, word alignment such as 0-0 1-2, computed by the first model."
        ),
    ] = False,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence",
            help="Print TSV: text, confidence from 0 to 1, reasons for doubt; run `transduce calibrate RUN` first.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each line.")] = False,
    prefix: Annotated[
        Path | None, typer.Option(help="File with the required beginning of each translation, one per line.")
    ] = None,
    glossary: GlossaryOption = None,
    engine: EngineOption = None,
) -> None:
    """Translates text line by line, with one sentence per line; an empty line stays empty."""
    paths, text = runs_and_text(run)
    check_exist(prefix, glossary)
    check_glossary(glossary, text)
    refuse_document(text)
    runs = converted(paths, engine)
    method = search_method_of_options(
        read_config(runs[0], engine).decoding, search, sampling, n_best=n_best, no_repeat_ngram=no_repeat_ngram
    )
    calibrated = calibrated_run(paths, engine) if confidence else None
    output_format = choose_output(calibrated, scores=scores or n_best > 1, alignments=alignments, as_json=as_json)
    check_writable(output.out, overwrite=output.overwrite, inputs=[text, prefix, glossary])
    translator = load_translator(runs, engine, method, languages.request(), machine)
    output_format.check(translator)
    translate_lines, terms = with_glossary(translator, glossary, method)
    lines_of = functools.partial(output_format.lines, translator)
    windows, prefixes = read_windows(text, prefix)
    if isinstance(windows, list):
        translator.check_lengths([line for window in windows for line in window])
    translate_windows(translate_lines, lines_of, windows, prefixes, output.out, terms)


def refuse_document(text: Path | None) -> None:
    """Raises ValueError if `text` has the extension of a document format, because its lines are not sentences."""
    if text is None or not text.suffix:
        return
    from transduce.documents.document import format_by_name

    if kind := format_by_name(text):
        recipe = "; `transduce train` trains a recipe" if kind == "yaml" else ""
        raise ValueError(
            f"{text} has the name of a document ({kind}): `transduce translate-document` translates it; as lines: "
            f"`transduce translate RUN < {text}`{recipe}"
        )


def choose_output(calibrated: Path | None, *, scores: bool, alignments: bool, as_json: bool) -> "OutputFormat":
    """Chooses the output format from the options of the command.

    `calibrated` is the model directory whose calibration gives the confidence, or None if no confidence is printed.
    Raises ValueError if the options ask for columns that one table cannot combine; JSON can contain all of them.
    """
    from transduce.translation.output_format import OutputFormat

    if alignments and scores and not as_json:
        raise ValueError("--alignments: its table has no columns for --scores and --n-best; add --json")
    if calibrated and (alignments or scores) and not as_json:
        raise ValueError("--confidence: its table has no columns for --scores, --n-best and --alignments; add --json")
    if calibrated is None:
        return OutputFormat(scores=scores, alignments=alignments, json=as_json)
    from transduce.translation.confidence import Calibration

    return OutputFormat(scores, alignments, as_json, Calibration.read(calibrated))


def calibrated_run(runs: list[Path], engine: Engine | None) -> Path:
    """Returns the run whose calibration gives the confidence.

    Raises ValueError for an ensemble or an exported model, because neither has a calibration.
    """
    from transduce.model_directory.manifest import has_model

    if len(runs) > 1:
        raise ValueError("--confidence is calibrated for one model, not for an ensemble: name one model")
    if engine is not None and not has_model(runs[0]):
        raise ValueError(f"--confidence: {runs[0]} is an export, which has no calibration: name its run instead")
    return runs[0]
