"""Counters of a server for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What a server counts."""

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
        """Adds the numbers of accepted requests and of waiting sentences, which are read when they are shown."""
        for name, help_text, function in (
            ("transduce_accepted_requests", "Requests that wait or are translated.", accepted),
            ("transduce_waiting_sentences", "Sentences that no search has taken yet.", waiting),
        ):
            Gauge(name, help_text, registry=self._registry).set_function(function)

    def text(self) -> bytes:
        """Returns all values in Prometheus's text format."""
        return generate_latest(self._registry)
