"""`transduce translate-document`: translates structured documents or plain text sentence by sentence."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.commands.console import say
from transduce.commands.input_checks import check_exist, check_glossary
from transduce.commands.line_windows import read_windows, runs_and_text, say_loops, translate_windows
from transduce.commands.options import (
    EngineOption,
    GlossaryOption,
    MachineChoice,
    NoRepeatNgramOption,
    OutputChoice,
    SearchChoice,
    SourceLanguageOption,
    TargetChoice,
    search_method_of_options,
)
from transduce.commands.output_file import check_writable
from transduce.commands.translators import converted, load_translator, read_config, with_glossary
from transduce.documents.document import TextFormat, format_by_name
from transduce.runtime.progress import is_terminal

if TYPE_CHECKING:
    from transduce.documents.document import Document, DocumentLanguages
    from transduce.documents.sentence_translator import SentenceTranslator
    from transduce.translation.results import Translation

PEEKED_BYTES = 1 << 14


def translate_document(
    run: Annotated[
        list[Path],
        typer.Argument(metavar="RUN... [FILE]", help="Model directories, then a document (default: standard input)."),
    ],
    output: OutputChoice,
    search: SearchChoice,
    languages: TargetChoice,
    machine: MachineChoice,
    text_format: Annotated[
        TextFormat | None,
        typer.Option(
            "--format", help="Format of the document (default: detected from its name or content, else text)."
        ),
    ] = None,
    source_language: SourceLanguageOption = None,
    retranslate: Annotated[
        bool,
        typer.Option("--retranslate", help="Replace the translations that an XLIFF, TMX or PO file already contains."),
    ] = False,
    no_repeat_ngram: NoRepeatNgramOption = None,
    glossary: GlossaryOption = None,
    engine: EngineOption = None,
) -> None:
    """Translates a document sentence by sentence and keeps its structure."""
    paths, file = runs_and_text(run)
    check_exist(glossary)
    check_glossary(glossary, file)
    kind = text_format or format_of(file)
    if retranslate and kind not in (TextFormat.XLIFF, TextFormat.TMX, TextFormat.PO):
        raise ValueError(f"--retranslate: {kind} has no translations to replace; leave it out")
    runs = converted(paths, engine)
    from transduce.documents.document import DocumentLanguages
    from transduce.documents.sentence_translator import sentence_translator
    from transduce.translation.source_request import target_language_of

    config, request = read_config(runs[0], engine), languages.request(source_language)
    method = search_method_of_options(config.decoding, search, no_repeat_ngram=no_repeat_ngram)
    check_writable(output.out, overwrite=output.overwrite, inputs=[file, glossary])
    between = DocumentLanguages(source_language or config.source_language, target_language_of(config, request))
    document = None if kind is TextFormat.TEXT else open_document(file, kind, output.out, between, retranslate)
    translator = load_translator(runs, engine, method, request, machine)
    translate_lines, terms = with_glossary(translator, glossary, method)
    sentences = sentence_translator(
        translator, translate_lines, source_language=between.source, target_language=between.target
    )
    if document is None:
        windows = read_windows(file)
        translate_windows(_text_line_translator(sentences), _best_texts, *windows, output.out, terms, splits=True)
        return
    _write_document(document, sentences, output.out)
    if terms:
        say(terms.summary)


def format_of(file: Path | None) -> TextFormat:
    """Detects the format of a file from its name or, failing that, from its first bytes; the default is plain text.

    Standard input is always plain text. Raises ValueError for a format that is known but cannot be read, such as PDF.
    """
    from transduce.documents.formats import format_by_content, refuse_other_formats

    if file is None or str(file) == "-" or not file.is_file():
        return TextFormat.TEXT
    if named := format_by_name(file):
        return named
    with file.open("rb") as opened:
        beginning = opened.read(PEEKED_BYTES)
    refuse_other_formats(beginning, str(file))
    return format_by_content(beginning) or TextFormat.TEXT


def open_document(
    file: Path | None, kind: TextFormat, out: Path | None, languages: "DocumentLanguages", replace: bool
) -> "Document":
    """Reads a document from a file or from standard input.

    With `replace`, units that already have a translation are translated again. Raises ValueError, which names the file,
    if the document is too large or damaged, or if a DOCX would be written to standard output. Raises OSError if the
    file cannot be opened.
    """
    from transduce.documents.formats import MAX_DOCUMENT_BYTES, read_document
    from transduce.text.lines import standard_input

    if kind is TextFormat.DOCX and out is None:
        raise ValueError("a DOCX is not text for standard output: name the translation with --out")
    if file is None or str(file) == "-":
        name, content = "standard input", standard_input().read(MAX_DOCUMENT_BYTES + 1)
    else:
        with file.open("rb") as opened:
            name, content = str(file), opened.read(MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"{name} has more than {MAX_DOCUMENT_BYTES:,} bytes; split the document")
    try:
        return read_document(content, kind, languages, replace=replace)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _write_document(document: "Document", translator: "SentenceTranslator", out: Path | None) -> None:
    """Translates a document, writes the result and prints notes about it.

    Nothing is written until the whole document has been translated.
    """
    from transduce.documents.sentence_translator import translate_units
    from transduce.storage.result_files import replace_file

    translated = translate_units(document.units, translator)
    content = document.write(translated.contents)
    if out is not None:
        replace_file(out, lambda path: path.write_bytes(content))
    elif is_terminal(sys.stdout):
        sys.stdout.write(content.decode("utf-8", "replace"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    for note in document.notes:
        say(f"note: {note}")
    if not document.units:
        say("note: there is nothing to translate; the document is written as it is")
    _say_placed(translated.placed_by_position)
    say_loops(translated.count_loops())


def _text_line_translator(translator: "SentenceTranslator") -> "Callable[..., list[list[Translation]]]":
    """Returns a function that translates lines sentence by sentence, but keeps one output line per input line."""
    from transduce.documents.document import Unit, plain
    from transduce.documents.sentence_translator import translate_units
    from transduce.translation.results import EMPTY

    def translate_lines(lines: list[str], **_: Any) -> "list[list[Translation]]":
        translated = translate_units([Unit((line,) if line else ()) for line in lines], translator)
        _say_placed(translated.placed_by_position)
        return [[EMPTY._replace(text=plain(content))] for content in translated.contents]

    return translate_lines


def _best_texts(_lines: list[str], translations: "list[list[Translation]]", _before: int) -> list[str]:
    return [best[0].text for best in translations]


def _say_placed(count: int) -> None:
    """Prints how many sentences have tags that were placed by relative position, because no words were aligned."""
    if count:
        say(
            f"note: {count:,} sentences have tags or placeholders between their words; the model or the engine aligns "
            "no words, so they stand at the same relative position"
        )
