"""Translates lines as `transduce translate` does, and text or HTML as `transduce translate-document` does."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from transduce.documents.document import Content, Document, DocumentLanguages, Unit, plain
from transduce.documents.html_document import HtmlDocument
from transduce.documents.sentence_translator import SentenceTranslator, sentence_translator, translate_units
from transduce.serving.batch_queue import SearchRequest, Ticket
from transduce.serving.served_models import ServedDirection
from transduce.translation.output_format import OutputFormat
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod, search_method


class TextRequest(NamedTuple):
    """A request's translation direction and its ticket."""

    served: ServedDirection
    ticket: Ticket

    def translate(
        self, sentences: Sequence[str], method: SearchMethod, prefixes: Sequence[str] | None = None
    ) -> Iterator[list[Translation]]:
        """Queues sentences, and returns an iterator over the n-best translations of each sentence, in order."""
        search = SearchRequest(self.served.translator, method)
        return map(self.ticket.result, self.served.queue.submit(search, sentences, prefixes, self.ticket))

    def sentence_translator(self, translate: Callable[[list[str]], list[Translation]]) -> SentenceTranslator:
        """Builds the sentence translator for documents; a lock lets only one request at a time align words."""
        served = self.served
        translator = sentence_translator(
            served.translator, source_language=served.source, target_language=served.target
        )._replace(translate=translate)
        align = translator.align
        if align is None:
            return translator

        def align_alone(sentence: str, translation: Translation) -> list[tuple[int, int]]:
            with served.queue.inspecting:
                self.ticket.check()
                return align(sentence, translation)

        return translator._replace(align=align_alone)


def line_records(
    request: TextRequest,
    lines: Sequence[str],
    method: SearchMethod,
    prefixes: Sequence[str] | None,
    output_format: OutputFormat,
) -> Iterator[dict[str, Any]]:
    """Returns an iterator over the records that `transduce translate --json` would print for the lines.

    Raises ValueError if `output_format` needs attention weights that the model does not have.
    """
    translator = request.served.translator
    output_format.check(translator)

    def record(number: int, line: str, best: list[Translation]) -> dict[str, Any]:
        with request.served.queue.inspecting:
            request.ticket.check()
            (printed,) = output_format.lines(translator, [line], [best], number)
        values: dict[str, Any] = json.loads(printed)
        return values

    return map(record, itertools.count(), lines, request.translate(lines, method, prefixes))


def translate_texts(
    request: TextRequest, texts: Sequence[str], text_format: Literal["text", "html"], alternatives: int = 0
) -> list[list[str]]:
    """Returns, for each text, the best translation followed by at most `alternatives` alternatives.

    A text is HTML, or plain text with any number of sentences and lines. The n-th alternative consists of the n-th
    alternative of each sentence. There are fewer alternatives if the model's beam is too narrow, or if some are equal.
    """
    decoding = request.served.translator.decoding
    method = search_method(decoding, min(alternatives + 1, decoding.beam))
    n_best: dict[str, list[Translation]] = {}
    languages = DocumentLanguages(request.served.source, request.served.target)
    documents: list[Document] = [
        PlainText(text) if text_format == "text" else HtmlDocument(text, str.encode, languages) for text in texts
    ]
    units = [unit for document in documents for unit in document.units]  # of all texts, translated in one call
    rows: list[list[str]] = [[] for _ in texts]
    for rank in range(method.n_best):

        def translate(sentences: list[str], rank: int = rank) -> list[Translation]:
            new = [sentence for sentence in sentences if sentence not in n_best]
            n_best.update(zip(new, request.translate(new, method), strict=True))
            return [n_best[sentence][min(rank, len(n_best[sentence]) - 1)] for sentence in sentences]

        contents = iter(translate_units(units, request.sentence_translator(translate)).contents)
        for row, document in zip(rows, documents, strict=True):
            text = document.write([next(contents) for _ in document.units]).decode()
            if text not in row:
                row.append(text)
    return rows


class PlainText(Document):
    """A plain text, which is translated line by line and keeps its line breaks."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._lines = text.split("\n")
        bodies = [line.removesuffix("\r") for line in self._lines]
        self.units = [Unit((body,) if body else ()) for body in bodies]

    def write(self, translations: Sequence[Content]) -> bytes:
        """Joins the translated lines with the original line breaks."""
        ends = ["\r" if line.endswith("\r") else "" for line in self._lines]
        return "\n".join(plain(content) + end for content, end in zip(translations, ends, strict=True)).encode()


def translate_document(request: TextRequest, document: Document) -> bytes:
    """Translates the units of a document, and returns the content of the translated document."""
    method = search_method(request.served.translator.decoding)

    def translate(sentences: list[str]) -> list[Translation]:
        return [best[0] for best in request.translate(sentences, method)]

    return document.write(translate_units(document.units, request.sentence_translator(translate)).contents)
