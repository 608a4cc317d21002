"""`transduce translate`: translates lines of text."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.bulk import SHARD_LINES, translate_in_bulk
from transduce.commands.documents import choose_format, open_source, options_for_lines, translate_source
from transduce.commands.line_windows import read_windows, runs_and_text, translate_windows
from transduce.commands.options import (
    BatchTokensOption,
    BeamOption,
    DeviceOption,
    Engine,
    FromOption,
    GreedyOption,
    LengthPenaltyOption,
    MarginOption,
    NoRepeatNgramOption,
    OverwriteOption,
    PrecisionName,
    SampleOption,
    SeedOption,
    TagOption,
    TemperatureOption,
    ThreadsOption,
    ToOption,
    TopKOption,
    TopPOption,
    refuse_options,
    search_method_of_options,
)
from transduce.commands.output import check_writable
from transduce.documents.document import TextFormat

if TYPE_CHECKING:
    from transduce.model_directory.config import Config
    from transduce.translation.engine import TranslationPrecision
    from transduce.translation.glossary_translator import GlossaryTranslator
    from transduce.translation.output_format import OutputFormat
    from transduce.translation.results import Translation
    from transduce.translation.search_method import SearchMethod
    from transduce.translation.source_request import SourceRequest
    from transduce.translation.translator import Translator


def translate(
    run: Annotated[list[Path], typer.Argument(metavar="RUN... [TEXT]", help="Model directories, then a file.")],
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    overwrite: OverwriteOption = False,
    beam: BeamOption = None,
    length_penalty: LengthPenaltyOption = None,
    margin: MarginOption = None,
    no_repeat_ngram: NoRepeatNgramOption = None,
    greedy: GreedyOption = False,
    n_best: Annotated[int, typer.Option(min=1, help="Most translations of a line, as TSV.")] = 1,
    scores: Annotated[bool, typer.Option(help="TSV: line number, text, log-probability, penalised score.")] = False,
    alignments: Annotated[bool, typer.Option(help="TSV: text, source-target word pairs, by the first run.")] = False,
    confidence: Annotated[
        bool,
        typer.Option(help="TSV: text, confidence from 0 to 1, reasons for doubt; after `transduce calibrate RUN`."),
    ] = False,
    sample: SampleOption = False,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    to: ToOption = None,
    source_language: FromOption = None,
    tag: TagOption = None,
    prefix: Annotated[Path | None, typer.Option(help="A file with the beginning of each translation.")] = None,
    glossary: Annotated[
        Path | None, typer.Option(help="Terms that the translation must have: source, tab, target, a line each.")
    ] = None,
    batch_tokens: BatchTokensOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each line.")] = False,
    text_format: Annotated[
        TextFormat | None,
        typer.Option("--format", help="Of the text; by the name and the content of the file if not given."),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line is a sentence, whatever the file: --format lines.")
    ] = False,
    retranslate: Annotated[
        bool, typer.Option("--retranslate", help="Replace the translations that XLIFF, TMX and PO have already.")
    ] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: Annotated[
        PrecisionName | None,
        typer.Option(
            help="Of products: int8 is fast on a CPU, bfloat16 on a GPU; float32 if not given, or that of an export."
        ),
    ] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(help="local or ray: a file or folder in bulk, shard by shard. ctranslate2: with that engine."),
    ] = None,
    shard_lines: Annotated[
        int | None, typer.Option(min=1, help=f"With --engine local or ray; {SHARD_LINES} if not given.")
    ] = None,
    actors: Annotated[int | None, typer.Option(min=1, help="Models that work at once, with --engine ray.")] = None,
) -> None:
    """Translates lines, one for each, or a document, whose structure stays as it is."""
    from transduce.bulk.job import TranslationJob
    from transduce.translation.source_request import SourceRequest
    from transduce.translation.translator import BATCH_TOKENS

    bulk_engine = engine if engine is not None and engine.is_bulk else None
    runs, text = runs_and_text(run, bulk_engine)
    runs = [_converted(runs)] if engine is Engine.CTRANSLATE2 else runs
    config = read_config(runs[0], engine)
    beams: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty, "margin": margin}
    draws: dict[str, Any] = {"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    method = search_method_of_options(
        config.decoding, n_best, no_repeat_ngram=no_repeat_ngram, greedy=greedy, **beams, **draws
    )
    calibrated = _calibrated_run(run, runs, engine) if confidence else None
    output_format = _output_format(calibrated, scores=scores or n_best > 1, alignments=alignments, as_json=as_json)
    batch_tokens, request = batch_tokens or BATCH_TOKENS, SourceRequest(to, source_language, tag)
    line_options = {"--engine": bulk_engine, "--prefix": prefix, **options_for_lines(output_format)}
    kind = choose_format(text_format, lines, text, line_options, retranslate=retranslate)
    if bulk_engine is None:
        refuse_options({"--shard-lines": shard_lines, "--actors": actors}, "is for --engine local or ray")
        check_writable(out, overwrite=overwrite)
        source = open_source(text, kind, out, config, request, replace=retranslate)
        translator = _load_translator(runs, engine, method, request, device, threads, precision)
        output_format.check(translator)
        translate_lines, terms = _translate_function(translator, glossary, method, batch_tokens)
        if source is None:
            lines_of = functools.partial(output_format.lines, translator)
            translate_windows(translate_lines, lines_of, *read_windows(text, prefix), out, terms)
        else:
            translate_source(source, translator, translate_lines, out, terms, sample=sample)
    else:
        not_here = {"--overwrite": overwrite or None, "--confidence": confidence or None}
        refuse_options({**not_here, "--glossary": glossary}, "is not for --engine")
        fields: dict[str, Any] = {"output_format": output_format, "request": request, "batch_tokens": batch_tokens}
        fields |= {"precision": _or_float32(precision), "device": device, "threads": threads}
        job = TranslationJob.of(runs, method, **fields)
        translate_in_bulk(job, text, out, bulk_engine, shard_lines=shard_lines, actors=actors, prefix=prefix)


def _output_format(calibrated: Path | None, *, scores: bool, alignments: bool, as_json: bool) -> "OutputFormat":
    """Returns the output format, with the confidence of the model `calibrated`.

    Raises ValueError for a table that would lack columns.
    """
    from transduce.translation.confidence import Calibration
    from transduce.translation.output_format import OutputFormat

    if alignments and scores and not as_json:
        raise ValueError("--alignments: its table has no columns for --scores and --n-best; add --json")
    if calibrated and (alignments or scores) and not as_json:
        raise ValueError("--confidence: its table has no columns for --scores, --n-best and --alignments; add --json")
    confidence = Calibration.read(calibrated) if calibrated else None
    return OutputFormat(scores=scores, alignments=alignments, json=as_json, confidence=confidence)


def read_config(run: Path, engine: Engine | None = None) -> "Config":
    """Reads the settings of a model; raises ValueError for a parser."""
    from transduce.model_directory.model import Model

    if engine is Engine.CTRANSLATE2:
        from transduce.exchange.ctranslate2_folder import read_exported_config

        return read_exported_config(run)
    config = Model.read_config(run)
    if config.linearisation is not None:
        raise ValueError(f"{run} parses and does not translate: use `transduce parse`")
    return config


def _calibrated_run(paths: list[Path], runs: list[Path], engine: Engine | None) -> Path:
    """Returns the run whose calibration the confidence needs; raises ValueError for an ensemble and for an export."""
    from transduce.model_directory.manifest import has_model

    if len(runs) > 1:
        raise ValueError("--confidence is calibrated for one model, not for an ensemble: name one model")
    if engine is Engine.CTRANSLATE2 and not has_model(paths[0]):
        raise ValueError(f"--confidence: {paths[0]} is an export, which has no calibration: name its run instead")
    return paths[0]


def _converted(runs: list[Path]) -> Path:
    """Returns the folder from which CTranslate2 translates; raises ValueError for an ensemble."""
    from transduce.exchange.ctranslate2_folder import ctranslate2_folder

    if len(runs) > 1:
        raise ValueError("--engine ctranslate2 has no ensembles: name one model")
    return ctranslate2_folder(runs[0])


def _load_translator(
    runs: list[Path],
    engine: Engine | None,
    method: "SearchMethod",
    request: "SourceRequest",
    device: str,
    threads: int | None,
    precision: PrecisionName | None,
) -> "Translator":
    """Loads the models; raises ValueError for a search that the engine does not have."""
    from transduce.runtime.device import set_up_device
    from transduce.translation.translator import Translator

    if engine is Engine.CTRANSLATE2:
        from transduce.exchange.ctranslate2_folder import load_ctranslate2
        from transduce.exchange.ctranslate2_format import check_method

        check_method(method)
        chosen = str(set_up_device(device, threads))
        exported = load_ctranslate2(runs[0], device=chosen, threads=threads, precision=precision and precision.value)
        return exported.into(**request._asdict())
    chosen = str(set_up_device(device, threads, _or_float32(precision)))
    return Translator.load(*runs, device=chosen, precision=_or_float32(precision), **request._asdict())


def _translate_function(
    translator: "Translator", glossary: Path | None, method: "SearchMethod", batch_tokens: int
) -> "tuple[Callable[..., list[list[Translation]]], GlossaryTranslator | None]":
    """Returns what translates lines, and with a glossary its counts of terms.

    Raises ValueError for an engine, a model or a search that has no glossary.
    """
    if glossary is None:
        return functools.partial(translator.translate_lines, method=method, batch_tokens=batch_tokens), None
    from transduce.text.glossary import Glossary
    from transduce.translation.engine import TorchEngine
    from transduce.translation.glossary_translator import GlossaryTranslator

    if not isinstance(translator.engine, TorchEngine):
        raise ValueError("--glossary: this engine returns no attention weights; leave out --engine, or --glossary")
    terms = GlossaryTranslator(translator, Glossary.read(glossary))
    terms.check_method(method)
    return functools.partial(terms.translate_lines, method=method, batch_tokens=batch_tokens), terms


def _or_float32(precision: PrecisionName | None) -> "TranslationPrecision":
    """Returns the precision that the option names; float32 without it."""
    return (precision or PrecisionName.FLOAT32).value
