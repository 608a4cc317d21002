"""Records each request in counters for Prometheus, and in the log as one line of JSON.

The log contains the texts of the requests only if the server is started with `--log-texts`.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.runtime.json_text import json_text

# The upper bounds of the buckets of the histograms.
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The Prometheus metrics of a server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "transduce_requests", "Number of requests answered.", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "transduce_request_seconds",
            "Seconds until the response was complete.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.characters = Counter(
            "transduce_characters",
            "Number of characters in the texts of successful requests.",
            registry=self._registry,
        )
        self.group_sentences = Histogram(
            "transduce_group_sentences",
            "Number of sentences translated together in one group.",
            buckets=SENTENCES,
            registry=self._registry,
        )

    def watch(self, accepted: Callable[[], float], waiting: Callable[[], float]) -> None:
        """Adds gauges for the numbers of accepted requests and waiting sentences.

        The functions that return these numbers are called whenever the metrics are shown.
        """
        for name, help_text, function in (
            ("transduce_accepted_requests", "Number of requests that are waiting or being translated.", accepted),
            ("transduce_waiting_sentences", "Number of sentences that are waiting to be translated.", waiting),
        ):
            Gauge(name, help_text, registry=self._registry).set_function(function)

    def text(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


_log = logging.getLogger("transduce.serving")

NO_ROUTE = "none"  # replaces unknown paths, of which clients could invent any number


def note_texts(request: Request, texts: Sequence[str]) -> None:
    """Stores the texts of a request, which `RequestLog` counts and logs."""
    request.state.texts = texts


class RequestLog:
    """ASGI middleware that logs and counts each request."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, logs_texts: bool) -> None:
        self._application, self._metrics, self._logs_texts = app, metrics, logs_texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and logs it once it has been answered."""
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
