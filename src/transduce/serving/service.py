"""The service behind both APIs, which accepts requests, runs each in a thread and answers within the time limit."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import HTTPException, Request
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.requests import ClientDisconnect

from transduce.search.cancellation import SearchStoppedError
from transduce.serving.batch_queue import Ticket
from transduce.serving.language_names import LanguageDetector
from transduce.serving.limits import ApiKeys, Limits, address_of
from transduce.serving.request_log import note_texts
from transduce.serving.served_models import ServedModels
from transduce.translation.batching import LineTooLargeError

RETRY_SECONDS = "5"

Result = TypeVar("Result")


class Service:
    """Holds the models, limits and API keys of a server, and runs the requests that it accepts.

    `accepted` is the number of requests that are waiting or being answered.
    """

    def __init__(self, models: ServedModels, detector: LanguageDetector, limits: Limits, keys: ApiKeys) -> None:
        self.models, self.detector, self.limits, self.keys = models, detector, limits, keys
        rate = limits.requests_per_minute
        self._rate = None if rate is None else RateLimitItemPerMinute(rate)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())  # counts requests over a sliding minute
        self.accepted = 0
        self._threads = ThreadPoolExecutor(limits.accepted, "request")

    def admit(self, request: Request, key: str | None) -> None:
        """Checks the API key and the request rate of a client.

        Raises an HTTP error with status 403 if the key is wrong, and with status 429 if the client has sent too many
        requests. Requests with a wrong key count towards the limit of the client's address, so that the number of
        guesses is limited as well.
        """
        with self.counting_faults(request):
            self.keys.check(key)
        # If no key is required, a client could evade the limit by inventing a key for each request.
        self.count_request(key if key and self.keys.are_required else address_of(request))

    def accept_texts(self, request: Request, key: str | None, texts: Sequence[str]) -> None:
        """Admits a request, checks the sizes of its texts, and records them for the log.

        Raises the errors of `admit` and `Limits.check_texts`.
        """
        self.admit(request, key)
        self.limits.check_texts(texts)
        note_texts(request, texts)

    def count_request(self, client: str) -> None:
        """Counts a request; raises an HTTP error with status 429 if the client has sent too many in the last minute."""
        if self._rate is not None and not self._limiter.hit(self._rate, client):
            raise HTTPException(429, f"Slowdown: {self._rate}", {"Retry-After": "60"})

    @contextlib.contextmanager
    def counting_faults(self, request: Request) -> Iterator[None]:
        """Counts a request towards the limit of the client's address if it is rejected within the context.

        Raises an HTTP error with status 429 if the client has sent too many requests.
        """
        try:
            yield
        except HTTPException:
            self.count_request(address_of(request))
            raise

    async def answer(self, request: Request, work: Callable[[Ticket], Result]) -> Result:
        """Runs `work` in a thread and returns its result; stops it if the client disconnects.

        Raises an HTTP error with status 503 if too many requests are waiting or the time limit is exceeded, and with
        status 400 if `work` raises ValueError.
        """
        with self._ticket() as ticket:
            async with _watched(request, ticket):
                return await self._run(work, ticket)

    async def stream(self, request: Request, work: Callable[[Ticket], Iterator[Result]]) -> AsyncGenerator[Result]:
        """Yields the results of the iterator that `work` returns, which are computed in a thread.

        Closing the stream stops the work. Until the first result, this method detects whether the client disconnects;
        after that, the response that sends the results does so.
        """
        with self._ticket() as ticket:
            async with _watched(request, ticket):
                results = await self._run(work, ticket)
                result = await self._run(lambda _: next(results, None), ticket)
            while result is not None:
                yield result
                result = await self._run(lambda _: next(results, None), ticket)

    def close(self) -> None:
        """Stops accepting requests, and ends all threads once the waiting sentences have been translated."""
        self.models.close()
        self._threads.shutdown()

    @contextlib.contextmanager
    def _ticket(self) -> Iterator[Ticket]:
        """Accepts a request for the duration of the context, and yields its ticket.

        Raises an HTTP error with status 503 if too many requests have been accepted already.
        """
        if self.accepted >= self.limits.accepted:
            raise HTTPException(503, "Too many requests are waiting: try again later", {"Retry-After": RETRY_SECONDS})
        self.accepted += 1
        ticket = Ticket(self.limits.seconds)
        try:
            yield ticket
        finally:
            self.accepted -= 1
            ticket.cancel("the request was given up")

    async def _run(self, work: Callable[[Ticket], Result], ticket: Ticket) -> Result:
        """Runs `work` in a thread, and converts the errors that it raises to HTTP errors."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, ticket)
        except SearchStoppedError as error:
            if ticket.client_has_left:
                raise ClientDisconnect from error
            remedy = "send less text, or try again later"
            raise HTTPException(503, f"{error}; {remedy}", {"Retry-After": RETRY_SECONDS}) from error
        except LineTooLargeError as error:
            raise HTTPException(400, f"a text {error.fault}") from error
        except ValueError as error:
            raise HTTPException(400, str(error)) from error


@contextlib.asynccontextmanager
async def _watched(request: Request, ticket: Ticket) -> AsyncIterator[None]:
    """Cancels the ticket if the client disconnects within the context."""

    async def watch() -> None:
        try:
            while (await request.receive())["type"] != "http.disconnect":
                pass
        except HTTPException as error:  # from BodyLimit: only `watch` reads a body that is neither JSON nor a form
            ticket.cancel(error.detail)
        else:
            ticket.client_leaves()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
