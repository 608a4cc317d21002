"""Records each request: in counters for Prometheus, and as one line of JSON in the log.

The log contains texts only if you ask for them.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.runtime.json_text import json_text

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of a server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "transduce_requests", "Answered requests.", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "transduce_request_seconds", "Time until the answer.", ["route"], buckets=SECONDS, registry=self._registry
        )
        self.characters = Counter(
            "transduce_characters",
            "Characters of the texts of requests that were answered without an error.",
            registry=self._registry,
        )
        self.group_sentences = Histogram(
            "transduce_group_sentences",
            "Sentences of all requests that were translated at once.",
            buckets=SENTENCES,
            registry=self._registry,
        )

    def watch(self, accepted: Callable[[], float], waiting: Callable[[], float]) -> None:
        """Adds the numbers of accepted requests and of waiting sentences, which are read when the metrics are shown."""
        for name, help_text, function in (
            ("transduce_accepted_requests", "Requests that wait or are translated.", accepted),
            ("transduce_waiting_sentences", "Sentences that no search has taken yet.", waiting),
        ):
            Gauge(name, help_text, registry=self._registry).set_function(function)

    def text(self) -> bytes:
        """All values in Prometheus's text format."""
        return generate_latest(self._registry)


_log = logging.getLogger("transduce.serving")

NO_ROUTE = "none"  # replaces unknown paths, which anybody may invent


def note_texts(request: Request, texts: Sequence[str]) -> None:
    """Records the texts of a request for its line in the log."""
    request.state.texts = texts


class RequestLog:
    """Wraps an ASGI application, and logs and counts each request."""

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
            texts = state.get("texts", [])
            seconds = time.perf_counter() - start
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
