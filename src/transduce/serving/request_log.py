"""Logs and counts every request: one line of JSON each, without texts unless these are asked for."""

import logging
import time
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.runtime.json_text import json_text
from transduce.serving.metrics import Metrics

__all__ = ["RequestLog", "note_texts"]

_log = logging.getLogger("transduce.serving")

NO_ROUTE = "none"  # in the place of paths that anybody may invent


def note_texts(request: Request, texts: Sequence[str]) -> None:
    """Notes the texts of a request for its line in the log."""
    request.state.texts = texts


class RequestLog:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, logs_texts: bool) -> None:
        self._application, self._metrics, self._logs_texts = app, metrics, logs_texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and logs it when it is answered."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        status, start = 500, time.perf_counter()

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._application(scope, receive, send_and_note)
        finally:
            self._note(scope, state.get("texts", []), status, time.perf_counter() - start)

    def _note(self, scope: Scope, texts: Sequence[str], status: int, seconds: float) -> None:
        """Logs and counts an answered request."""
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        characters = sum(map(len, texts))
        record: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": scope["method"],
            "route": route,
            "status": status,
            "milliseconds": round(1000 * seconds, 1),
            "texts": len(texts),
            "characters": characters,
        }
        if self._logs_texts:
            record["content"] = list(texts)
        _log.info("%s", json_text(record, ensure_ascii=False))
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        self._metrics.characters.inc(characters if status < 400 else 0)
