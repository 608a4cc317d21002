"""The server's own API under /v1.

The routes translate lines (with scores, alignments and confidence), split texts into sentences, draw attention weights
and return the settings of the server.
"""

import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from transduce.documents.document import SUFFIXES, Unit
from transduce.documents.placeholders import Placeholder, split_placeholders
from transduce.documents.segments import UnitSentence, divide
from transduce.documents.sentence_splitter import is_spaceless
from transduce.documents.sentence_translator import add_code, has_alignments, sentence_translator, split_code
from transduce.pages import render_attention_page
from transduce.runtime.json_text import json_text
from transduce.serving import contract
from transduce.serving.batch_queue import Ticket
from transduce.serving.language_names import AUTO, is_auto, named_language
from transduce.serving.libretranslate import ERRORS, languages_of_texts
from transduce.serving.page_routes import PICTURE_POLICY
from transduce.serving.request_log import note_texts
from transduce.serving.served_models import ServedDirection, ServedModels
from transduce.serving.service import Service
from transduce.serving.text_translation import TextRequest, line_records
from transduce.translation.output_format import OutputFormat
from transduce.translation.search_method import search_method

EVENT = {
    "type": "object",
    "properties": {"event": {"enum": ["line", "end", "error"]}, "data": {"type": "string", "description": "JSON."}},
    "required": ["event", "data"],
}
STREAMED = "The translations; with `stream` as server-sent events."
EVENTS: dict[str, dict[str, Any]] = {"text/event-stream": {"schema": EVENT}}

MAX_DRAWN_TOKENS = 120  # per side; the picture of a base model then shows two million weights and takes 8 MB
PICTURE_HEADERS = {"Content-Security-Policy": PICTURE_POLICY, "Cache-Control": "no-store"}
# With `response_class`, FastAPI assumes HTML for every status unless the content type is given.
PICTURE_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": error["description"],
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{contract.Failure.__name__}"}}},
    }
    for status, error in ERRORS.items()
}
LINE_END = re.compile(r"(\r?\n)")


def v1_routes(service: Service) -> APIRouter:
    """Returns the routes under /v1. If keys are required, clients send the header `Authorization: Bearer KEY`."""
    routes = APIRouter(tags=["transduce"])

    @routes.post(
        "/v1/translate",
        response_model=contract.LineAnswer,
        response_model_exclude_none=True,
        responses={**ERRORS, 200: {"content": EVENTS, "description": STREAMED}},
    )
    async def translate_lines(request: Request, body: contract.LineRequest) -> Any:
        """Translates lines, and returns for each line the record that `transduce translate --json` prints.

        If the server requires a key, send the header `Authorization: Bearer KEY`.
        """
        service.admit(request, bearer_key(request))
        lines = _lines(body.text, "text")
        prefixes = None if body.prefix is None else _lines(body.prefix, "prefix")
        service.limits.check_texts(lines)
        service.limits.check_texts(prefixes or [])
        note_texts(request, lines)
        served = find_direction(service.models, body.source, body.target)

        def records(ticket: Ticket) -> Iterator[dict[str, Any]]:
            if body.confidence and served.calibration is None:
                raise ValueError(
                    "the model has no confidence: make it with `transduce calibrate`, and start the server again"
                )
            calibration = served.calibration if body.confidence else None
            output = OutputFormat(json=True, alignments=body.alignments, confidence=calibration, words=body.words)
            decoding = served.translator.decoding
            method = search_method(decoding, body.n_best, beam=body.beam, length_penalty=body.length_penalty)
            return line_records(TextRequest(served, ticket), lines, method, prefixes, output)

        if body.stream:
            return await _streamed(service.stream(request, records))
        answers = await service.answer(request, lambda ticket: list(records(ticket)))
        return {"source": served.source, "target": served.target, "lines": answers}

    @routes.get("/v1/settings")
    async def settings() -> contract.ServerSettings:
        """Returns the translation directions and the limits of the server."""
        return contract.ServerSettings(
            key_required=service.keys.are_required,
            max_characters=service.limits.characters,
            max_texts=service.limits.texts,
            document_suffixes=[".txt", *SUFFIXES],
            directions=[
                contract.DirectionAbilities(
                    source=named_language(served.source),
                    target=named_language(served.target),
                    alignments=has_alignments(served.translator),
                    confidence=served.calibration is not None,
                )
                for served in service.models.directions.values()
            ],
        )

    @routes.post("/v1/sentences", responses=ERRORS, response_model_exclude_none=True)
    async def split_text(request: Request, body: contract.SentencesRequest) -> contract.SentencesAnswer:
        """Splits a text into sentences as /translate does, and detects its language.

        A client that translates sentence by sentence can then skip the sentences that it has already translated. If the
        server requires a key, send the header `Authorization: Bearer KEY`.
        """
        service.accept_texts(request, bearer_key(request), [body.text])

        def split(_: Ticket) -> contract.SentencesAnswer:
            if body.source is None or not is_auto(body.source):
                served = find_direction(service.models, body.source, body.target)
                return contract.SentencesAnswer(
                    source=served.source,
                    target=served.target,
                    detected=service.detector.other_language(body.text, served.source),
                    parts=text_parts(body.text, served),
                )
            if body.target is None:
                raise HTTPException(400, "name target: it says which languages are detected")
            (detected,) = languages_of_texts(service, [body.text], AUTO, body.target)
            source, target = detected.language, service.models.language(body.target)
            if source == target:  # a text in the target language is copied
                parts = [contract.TextPart(text=body.text, kind="copied")]
            else:
                parts = text_parts(body.text, service.models.find(source, target))
            return contract.SentencesAnswer(source=source, target=target, detected=detected, parts=parts)

        return await service.answer(request, split)

    @routes.post("/v1/attention", responses=PICTURE_ERRORS, response_class=HTMLResponse)
    async def draw_attention(request: Request, body: contract.AttentionRequest) -> HTMLResponse:
        """Draws the attention weights for a sentence and its translation, as the HTML page of `transduce draw`.

        If the server requires a key, send the header `Authorization: Bearer KEY`.
        """
        service.accept_texts(request, bearer_key(request), [body.text, body.translation])
        served = find_direction(service.models, body.source, body.target)

        def picture(ticket: Ticket) -> str:
            translator = served.translator
            texts = (("text", body.text, translator.source), ("translation", body.translation, translator.target))
            for name, text, vocabulary in texts:
                (tokens,) = vocabulary.encode([text])
                if not 1 <= len(tokens) <= MAX_DRAWN_TOKENS:
                    bounds = f"attention is drawn from 1 to {MAX_DRAWN_TOKENS}"
                    raise ValueError(f"{name} has {len(tokens)} subwords: {bounds}")
            with served.queue.inspecting:
                ticket.check()
                return render_attention_page(translator.explain(body.text, body.translation))

        return HTMLResponse(await service.answer(request, picture), headers=PICTURE_HEADERS)

    return routes


def _lines(texts: str | list[str], name: str) -> list[str]:
    """Returns `texts` as a list of lines; raises an HTTP error with status 400 if one contains a line break."""
    lines = [texts] if isinstance(texts, str) else texts
    for number, line in enumerate(lines, start=1):
        if "\n" in line:
            raise HTTPException(
                400, f"{name} {number} has a line end: split it at line ends, or send it to /translate, which does"
            )
    return lines


def find_direction(models: ServedModels, source: str | None, target: str | None) -> ServedDirection:
    """Returns the only direction that matches two language codes; None matches any language.

    Raises an HTTP error with status 400 if a language is not supported, or if no direction or several match.
    """
    try:
        source, target = (None if code is None else models.language(code) for code in (source, target))
        if source is not None and target is not None:
            return models.find(source, target)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    fitting = [
        served
        for served in models.directions.values()
        if source in (None, served.source) and target in (None, served.target)
    ]
    if len(fitting) != 1:
        raise HTTPException(
            400, "name source and target: this server translates " + ", ".join(map(str, models.directions))
        )
    return fitting[0]


def bearer_key(request: Request) -> str | None:
    """Returns the key in the header `Authorization: Bearer KEY`, or None if there is no such header.

    The key may be in UTF-8, as curl sends it, or in Latin-1, as browsers send it.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    try:
        return key.strip().encode("latin-1").decode()
    except UnicodeError:
        return key.strip()


async def _streamed(stream: AsyncGenerator[dict[str, Any]]) -> Response:
    """Sends the records as server-sent events: `line` for each record, then `end`, or `error` if a line fails."""
    first = await anext(stream, None)  # before the status is sent, because most errors occur up to this point

    async def events() -> AsyncIterator[str]:
        async with contextlib.aclosing(stream):
            try:
                if first is not None:
                    yield _event("line", first)
                async for record in stream:
                    yield _event("line", record)
                yield _event("end", {})
            except HTTPException as error:
                yield _event("error", {"error": error.detail})

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _event(name: str, content: dict[str, Any]) -> str:
    """Formats a server-sent event whose data is one line of JSON."""
    return f"event: {name}\ndata: {json_text(content, ensure_ascii=False)}\n\n"


def text_parts(text: str, served: ServedDirection) -> list[contract.TextPart]:
    """Splits a text into nonempty parts, whose translations can be joined to form the translation of the text."""
    translator = sentence_translator(served.translator, source_language=served.source, target_language=served.target)
    spaceless = is_spaceless(served.target)
    parts: list[contract.TextPart] = []
    for index, line in enumerate(LINE_END.split(text)):
        if index % 2:
            parts.append(contract.TextPart(text=line, kind="copied"))
        elif any(isinstance(item, Placeholder) for item in split_placeholders(line)):
            parts.append(contract.TextPart(text=line, kind="text"))  # not split: a placeholder may move within its line
        elif line:
            code, unit = split_code(Unit((line,)), translator.codes)  # the code of a line is put before each sentence
            for part in divide(unit, translator.splitter).arranged(spaceless=spaceless):
                if isinstance(part, UnitSentence):
                    parts.append(contract.TextPart(text=add_code(code, part.text, translator.codes), kind="sentence"))
                else:
                    assert isinstance(part, str), "a line without placeholders has no marker"
                    parts.append(contract.TextPart(text=part, kind="copied"))
    return parts
