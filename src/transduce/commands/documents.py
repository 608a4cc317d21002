"""What `transduce translate` does with files that have structure, and with lines of several sentences."""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transduce.commands.console import say
from transduce.commands.line_windows import read_windows, say_loops, translate_windows
from transduce.documents.document import TextFormat
from transduce.runtime.progress import is_terminal

if TYPE_CHECKING:
    from transduce.documents.document import Document, DocumentLanguages
    from transduce.documents.translate_document import SentenceTranslator
    from transduce.model_directory.config import Config
    from transduce.translation.glossary_translator import GlossaryTranslator
    from transduce.translation.output_format import OutputFormat
    from transduce.translation.results import Translation
    from transduce.translation.source_request import SourceRequest
    from transduce.translation.translator import Translator

PEEKED_BYTES = 1 << 14


def options_for_lines(output_format: "OutputFormat") -> dict[str, bool]:
    """Returns the options of an output format that are about lines."""
    return {
        "--scores or --n-best": output_format.scores,
        "--alignments": output_format.alignments,
        "--confidence": output_format.confidence is not None,
        "--json": output_format.json,
    }


def choose_format(
    requested: TextFormat | None,
    lines: bool,
    text: Path | None,
    line_options: Mapping[str, Any],
    *,
    retranslate: bool,
) -> TextFormat:
    """Returns the format of the text: the requested one, or what the name and the content of the file show.

    Standard input is lines, and so is everything with one of `line_options`, which are about lines. Raises ValueError
    where a request contradicts them, or the format has no translations to `retranslate`.
    """
    if lines and requested not in (None, TextFormat.LINES):
        raise ValueError(f"--lines, --format {requested}: name one of the two")
    requested = TextFormat.LINES if lines else requested
    used = {name: value for name, value in line_options.items() if value}
    if used and requested not in (None, TextFormat.LINES):
        raise ValueError(f"{next(iter(used))}: it is for lines, and not for --format {requested}; leave it out")
    if requested is not None:
        chosen = requested
    elif used or text is None or str(text) == "-" or not text.is_file():
        chosen = TextFormat.LINES
    else:
        chosen = _format_of_file(text)
    if retranslate and chosen not in (TextFormat.XLIFF, TextFormat.TMX, TextFormat.PO):
        raise ValueError(f"--retranslate: {chosen} has no translations to replace; leave it out")
    return chosen


def _format_of_file(text: Path) -> TextFormat:
    """Returns the format that a file's name or its first bytes show; lines if neither does."""
    from transduce.documents.formats import format_by_content, format_by_name
    from transduce.text.compressed import plain_name

    if named := format_by_name(text):
        return named
    with text.open("rb") as file:
        shown = format_by_content(file.read(PEEKED_BYTES))
    if shown is None and plain_name(text).lower().endswith(".txt") and importlib.util.find_spec("sentencex"):
        return TextFormat.TEXT
    return shown or TextFormat.LINES


class SentenceSource(NamedTuple):
    """A text that is translated sentence by sentence: a document, or the lines of a file."""

    text: Path | None
    document: "Document | None"
    languages: "DocumentLanguages"


def open_source(
    text: Path | None,
    kind: TextFormat,
    out: Path | None,
    config: "Config",
    request: "SourceRequest",
    *,
    replace: bool,
) -> SentenceSource | None:
    """Reads a document; returns None for lines.

    Raises ValueError, which names the file, or OSError if it cannot be read or written.
    """
    if kind is TextFormat.LINES:
        return None
    from transduce.documents.document import DocumentLanguages
    from transduce.documents.formats import MAX_DOCUMENT_BYTES, read_document
    from transduce.text.lines import standard_input
    from transduce.translation.source_request import target_language_of

    source_language = request.source_language or config.source_language
    languages = DocumentLanguages(source_language, target_language_of(config, request))
    if not kind.is_document:
        return SentenceSource(text, None, languages)
    if kind is TextFormat.DOCX and out is None:
        raise ValueError("a DOCX is no text for standard output: name the translation with --out")
    if text is None or str(text) == "-":
        name, content = "standard input", standard_input().read(MAX_DOCUMENT_BYTES + 1)
    else:
        with text.open("rb") as file:
            name, content = str(text), file.read(MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"{name} has more than {MAX_DOCUMENT_BYTES:,} bytes; split the document")
    try:
        return SentenceSource(text, read_document(content, kind, languages, replace=replace), languages)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def translate_source(
    source: SentenceSource,
    translator: "Translator",
    translate_lines: "Callable[..., list[list[Translation]]]",
    out: Path | None,
    terms: "GlossaryTranslator | None",
    *,
    sample: bool,
) -> None:
    """Translates a text sentence by sentence with `translate_lines`, and writes it.

    If they `sample`, all lines are read first: the draws of a sentence belong to its number in the whole text.
    """
    from transduce.documents.translate_document import sentence_translator

    sentences = sentence_translator(
        translator,
        translate_lines,
        source_language=source.languages.source,
        target_language=source.languages.target,
    )
    if source.document is None:
        windows = read_windows(source.text, whole=sample)
        translate_windows(_text_line_translator(sentences), _best_texts, *windows, out, terms, splits=True)
        return
    _write_document(source.document, sentences, out)
    if terms:
        say(terms.summary)


def _write_document(document: "Document", translator: "SentenceTranslator", out: Path | None) -> None:
    """Translates a document and writes it, all or nothing."""
    from transduce.documents.translate_document import translate_units
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
    """Returns a function that translates lines sentence by sentence, one line for each."""
    from transduce.documents.document import Unit, plain
    from transduce.documents.translate_document import translate_units
    from transduce.translation.results import EMPTY

    def translate_lines(lines: list[str], **_: Any) -> "list[list[Translation]]":
        translated = translate_units([Unit((line,) if line else ()) for line in lines], translator)
        _say_placed(translated.placed_by_position)
        return [[EMPTY._replace(text=plain(content))] for content in translated.contents]

    return translate_lines


def _best_texts(_lines: list[str], translations: "list[list[Translation]]", _before: int) -> list[str]:
    """Returns the text of the best translation of each line."""
    return [best[0].text for best in translations]


def _say_placed(count: int) -> None:
    """Prints how many sentences have tags that stand at their relative position."""
    if count:
        say(
            f"note: {count:,} sentences have tags or placeholders between their words; the model or the engine aligns "
            "no words, so they stand at the same relative position"
        )
