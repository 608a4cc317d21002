"""The queue of a model: sentences of many requests, which one thread translates in groups.

A group takes one sentence from each waiting request in turn until it is full, so that a long request does not hold up
the others. Each accepted request has a ticket with its deadline; if the client leaves, the ticket ends immediately. A
search stops when no ticket of its sentences is live.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple, TypeVar

from transduce.search.cancellation import SearchStoppedError
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.translation.batching import LineTooLargeError
from transduce.translation.results import Translation
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

TICK_SECONDS = 0.25  # within this time a waiting thread sees that its request was cancelled

Result = TypeVar("Result")


class Ticket:
    """A request that waits for its sentences, for at most `seconds`. Threads share it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._reason: str | None = None
        self.client_has_left = False

    @property
    def is_live(self) -> bool:
        """Whether the client still waits."""
        return self._reason is None and time.monotonic() < self._deadline

    def cancel(self, reason: str) -> None:
        """Ends the wait; `check` and `result` raise SearchStoppedError with `reason`."""
        self._reason = reason

    def client_leaves(self) -> None:
        """Ends the wait, because the client has left."""
        self.client_has_left = True
        self.cancel("the client has left")

    def check(self) -> None:
        """Raises SearchStoppedError if the client no longer waits."""
        if self._reason is not None:
            raise SearchStoppedError(self._reason)
        if not self.is_live:
            raise SearchStoppedError(f"the translation did not end within {self._seconds:g} seconds")

    def result(self, future: "Future[Result]") -> Result:
        """Waits for the result of a future; raises SearchStoppedError at the deadline and after `cancel`."""
        is_done = False
        while not is_done:
            self.check()
            is_done = bool(wait([future], min(TICK_SECONDS, max(0.0, self._deadline - time.monotonic()))).done)
        try:
            return future.result()
        except SearchStoppedError:
            self.check()  # this request's reason, if it has one
            raise


GROUP_TOKENS = 1024  # tokens of a group; sentences of new requests wait until the group is translated
MAX_TOKENS = 512  # of a sentence or a prefix; a longer one would hold up all others for seconds

NBest = list[Translation]


class SearchRequest(NamedTuple):
    """How the sentences of a request are translated; sentences with equal search requests share a group."""

    translator: Translator
    method: SearchMethod

    def is_same(self, other: "SearchRequest") -> bool:
        """Whether sentences of both requests may be in one batch; both must use the same models."""
        return self.method == other.method and self.translator.source_tags == other.translator.source_tags


class WaitingSentence(NamedTuple):
    """A sentence that a client waits for."""

    text: str
    prefix: str
    tokens: int  # tokens of the text or of the prefix, whichever has more, and the end symbol
    future: Future[NBest]


class Job(NamedTuple):
    """The sentences of a request that have not yet been taken into a group."""

    request: SearchRequest
    ticket: Ticket
    waiting: list[WaitingSentence]


class BatchQueue:
    """Translates with one model in its own thread, until it is closed."""

    def __init__(self, observe_group: Callable[[int], None] = lambda sentences: None) -> None:
        """`observe_group` is called with the number of sentences of each group."""
        self.inspecting = threading.Lock()  # at most one thread explains or scores while searches run
        self._observe_group = observe_group
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="translations", daemon=True)
        self._thread.start()

    @property
    def is_working(self) -> bool:
        """Whether the queue accepts sentences."""
        return self._thread.is_alive() and not self._closed

    @property
    def waiting_sentences(self) -> int:
        """Number of sentences that no group has taken yet."""
        with self._changed:
            return sum(len(job.waiting) for job in self._jobs)

    def submit(
        self, request: SearchRequest, texts: Sequence[str], prefixes: Sequence[str] | None, ticket: Ticket
    ) -> list[Future[NBest]]:
        """Queues texts; returns a future of the n-best translations of each text.

        Raises ValueError for a text or a prefix that is too long, and if the numbers of prefixes and texts differ.
        """
        if prefixes is not None and len(prefixes) != len(texts):
            raise ValueError(f"there are {len(prefixes)} prefixes for {len(texts)} texts: give one prefix a text")
        if faults := request.translator.line_faults(texts, prefixes):
            place = min(faults)
            raise ValueError(f"text {place + 1} {faults[place]}")
        prefixes = prefixes or [""] * len(texts)
        counts = _count_subwords(request.translator.source, texts, "text", "split it")
        prefix_counts = _count_subwords(request.translator.target, prefixes, "prefix", "shorten it")
        # A translation has about as many subwords as its source, and no fewer than its prefix.
        sentences = [
            WaitingSentence(text, prefix, max(count, prefix_count) + 1, Future())
            for text, prefix, count, prefix_count in zip(texts, prefixes, counts, prefix_counts, strict=True)
        ]
        waiting = []
        for sentence in sentences:
            if request.translator.is_translated(sentence.text):
                waiting.append(sentence)
            elif sentence.prefix.strip():
                raise ValueError(f"there is no text to translate, and its prefix is {sentence.prefix!r}: empty it")
            else:
                sentence.future.set_result(request.translator.copied(sentence.text))
        with self._changed:
            if self._closed:
                raise SearchStoppedError("the server is stopping")
            if waiting:
                self._jobs.append(Job(request, ticket, waiting))
                self._changed.notify()
        return [sentence.future for sentence in sentences]

    def close(self) -> None:
        """Translates all waiting requests, and ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        """Body of the thread: translates group after group."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if not self._jobs:
                    return
                group = self._take()
            if group:
                self._observe_group(len(group))
                self._translate(group)

    def _take(self) -> list[tuple[Job, WaitingSentence]]:
        """Takes sentences of the first job and of jobs with the same search, in turn; the rest goes to the back."""
        self._jobs = [job for job in self._jobs if job.ticket.is_live]
        if not self._jobs:
            return []
        first = self._jobs[0].request
        taken_from = [job for job in self._jobs if job.request.is_same(first)]
        others = [job for job in self._jobs if not job.request.is_same(first)]
        group: list[tuple[Job, WaitingSentence]] = []
        tokens, turn = 0, list(taken_from)
        while turn and tokens < GROUP_TOKENS:
            job = turn.pop(0)
            sentence = job.waiting.pop(0)
            group.append((job, sentence))
            tokens += sentence.tokens
            if job.waiting:
                turn.append(job)
        self._jobs = [*others, *turn]
        return group

    def _translate(self, group: list[tuple[Job, WaitingSentence]]) -> None:
        """Translates a group; an error becomes the result of every sentence that has no translation yet."""
        tickets = list({id(job.ticket): job.ticket for job, _ in group}.values())

        def check() -> None:
            if not any(ticket.is_live for ticket in tickets):
                raise SearchStoppedError("nobody waits for these translations")

        sentences = [sentence for _, sentence in group]
        try:
            self._search(group[0][0].request, sentences, check)
        except Exception as error:
            for sentence in sentences:
                if not sentence.future.done():
                    sentence.future.set_exception(error)

    def _search(self, request: SearchRequest, sentences: list[WaitingSentence], check: Callable[[], None]) -> None:
        """Searches batch by batch, and delivers each result as soon as it is ready."""
        translator = request.translator.with_stop_check(check)
        texts = [sentence.text for sentence in sentences]
        prefixes = [sentence.prefix for sentence in sentences]
        for index, best in translator.translate_each(texts, request.method, prefixes if any(prefixes) else None):
            if isinstance(best, str):  # the message of a sentence that does not fit into memory
                sentences[index].future.set_exception(LineTooLargeError(1, best))
            else:
                sentences[index].future.set_result(best)


def _count_subwords(vocabulary: TokenVocabulary, texts: Sequence[str], name: str, remedy: str) -> list[int]:
    """Counts the subwords of each text; raises ValueError, with `name` and `remedy`, if a text has too many."""
    counts = list(map(len, vocabulary.encode(list(texts))))
    if (longest := max(counts, default=0)) > MAX_TOKENS:
        number = counts.index(longest) + 1
        raise ValueError(f"{name} {number} has {longest:,} subwords, more than {MAX_TOKENS}; {remedy}")
    return counts
