"""`transduce translate`: translates lines of text."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.input_checks import check_exist
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
        typer.Argument(
            metavar="RUN... [TEXT]", help="Model directories, then a file; standard input if none is given."
        ),
    ],
    output: OutputChoice,
    search: SearchChoice,
    languages: TargetChoice,
    sampling: SamplingChoice,
    machine: MachineChoice,
    no_repeat_ngram: NoRepeatNgramOption = None,
    n_best: Annotated[int, typer.Option(min=1, help="Most translations of a line, as TSV.")] = 1,
    scores: Annotated[
        bool, typer.Option("--scores", help="TSV: line number, text, log-probability, penalised score.")
    ] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="TSV: text, source-target word pairs, by the first run.")
    ] = False,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence",
            help="TSV: text, confidence from 0 to 1, reasons for doubt; after `transduce calibrate RUN`.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each line.")] = False,
    prefix: Annotated[Path | None, typer.Option(help="A file with the beginning of each translation.")] = None,
    glossary: GlossaryOption = None,
    engine: EngineOption = None,
) -> None:
    """Translates lines, one for each; an empty line stays empty."""
    paths, text = runs_and_text(run)
    check_exist(prefix, glossary)
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
    """Raises ValueError if a file has the name of a document, because the lines of a document are not sentences."""
    if text is None or not text.suffix:
        return
    from transduce.documents.document import format_by_name

    if kind := format_by_name(text):
        raise ValueError(
            f"{text} has the name of a document ({kind}): `transduce translate-document` translates it; as lines: "
            f"`transduce translate RUN < {text}`"
        )


def choose_output(calibrated: Path | None, *, scores: bool, alignments: bool, as_json: bool) -> "OutputFormat":
    """Builds the output format, with the confidence of the model `calibrated`.

    Raises ValueError for a table that would lack columns.
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
    """Returns the run whose calibration the confidence needs; raises ValueError for an ensemble or an export."""
    from transduce.model_directory.manifest import has_model

    if len(runs) > 1:
        raise ValueError("--confidence is calibrated for one model, not for an ensemble: name one model")
    if engine is not None and not has_model(runs[0]):
        raise ValueError(f"--confidence: {runs[0]} is an export, which has no calibration: name its run instead")
    return runs[0]
