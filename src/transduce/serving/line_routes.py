"""Our own interface: lines with n-best lists, scores, alignments and confidence, one by one where a client streams."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response, StreamingResponse

from transduce.runtime.json_text import json_text
from transduce.serving.contract import LineAnswer, LineRequest
from transduce.serving.libretranslate import ERRORS
from transduce.serving.request_log import note_texts
from transduce.serving.served_models import ServedDirection, ServedModels
from transduce.serving.service import Service
from transduce.serving.text_translation import TextRequest, line_records
from transduce.serving.tickets import Ticket
from transduce.translation.output_format import OutputFormat
from transduce.translation.search_method import search_method

__all__ = ["bearer_key", "find_direction", "line_routes"]

EVENT = {
    "type": "object",
    "properties": {"event": {"enum": ["line", "end", "error"]}, "data": {"type": "string", "description": "JSON."}},
    "required": ["event", "data"],
}
EVENTS: dict[str, dict[str, Any]] = {"text/event-stream": {"schema": EVENT}}


def line_routes(service: Service) -> APIRouter:
    """Returns the route of our own interface."""
    routes = APIRouter(tags=["transduce"], responses=ERRORS)

    @routes.post(
        "/v1/translate",
        response_model=LineAnswer,
        response_model_exclude_none=True,
        responses={200: {"content": EVENTS, "description": "The translations; with `stream` as server-sent events."}},
    )
    async def translate_lines(request: Request, body: LineRequest) -> Any:
        """Translates lines; each record is what `transduce translate --json` prints for the line.

        With keys, send the header `Authorization: Bearer KEY`.
        """
        service.admit(request, bearer_key(request))
        lines = _lines(body.text, "text")
        prefixes = None if body.prefix is None else _lines(body.prefix, "prefix")
        service.limits.check_texts(lines)
        service.limits.check_texts(prefixes or [])
        note_texts(request, lines)
        served = find_direction(service.models, body.source, body.target)

        def records(ticket: Ticket) -> Iterator[dict[str, Any]]:
            return _records(served, body, lines, prefixes, ticket)

        if body.stream:
            return await _streamed(service.stream(request, records))
        answers = await service.answer(request, lambda ticket: list(records(ticket)))
        return {"source": served.source, "target": served.target, "lines": answers}

    return routes


def _records(
    served: ServedDirection,
    body: LineRequest,
    lines: Sequence[str],
    prefixes: Sequence[str] | None,
    ticket: Ticket,
) -> Iterator[dict[str, Any]]:
    """Returns an iterator over the records of the lines; raises ValueError for what the model cannot do."""
    if body.confidence and served.calibration is None:
        raise ValueError("the model has no confidence: make it with `transduce calibrate`, and start the server again")
    calibration = served.calibration if body.confidence else None
    output_format = OutputFormat(json=True, alignments=body.alignments, confidence=calibration, words=body.words)
    decoding = served.translator.decoding
    method = search_method(decoding, body.n_best, beam=body.beam, length_penalty=body.length_penalty)
    return line_records(TextRequest(served, ticket), lines, method, prefixes, output_format)


def _lines(texts: str | list[str], name: str) -> list[str]:
    """Returns a list of lines; raises an error of status 400 for a text with a line end."""
    lines = [texts] if isinstance(texts, str) else texts
    for number, line in enumerate(lines, start=1):
        if "\n" in line:
            raise HTTPException(
                400, f"{name} {number} has a line end: split it at line ends, or send it to /translate, which does"
            )
    return lines


def find_direction(models: ServedModels, source: str | None, target: str | None) -> ServedDirection:
    """Returns the direction of two codes; raises an error of status 400 where they name none of several."""
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
    """Returns the key of the header Authorization, be it UTF-8 as curl sends it or Latin-1 as browsers do."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    try:
        return key.strip().encode("latin-1").decode()
    except UnicodeError:
        return key.strip()


async def _streamed(stream: AsyncGenerator[dict[str, Any]]) -> Response:
    """Returns server-sent events: `line` for each record, then `end`; `error` where a line fails."""
    first = await anext(stream, None)  # before the status is sent: most errors come before it

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
    """Returns a server-sent event with JSON on one line."""
    return f"event: {name}\ndata: {json_text(content, ensure_ascii=False)}\n\n"
