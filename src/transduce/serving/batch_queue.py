"""Queues the sentences of many requests for the same model, and translates them in groups.

A group is filled with one sentence from each waiting request in turn, so that a long request does not hold up the
others. Each accepted request has a ticket with a deadline, and if the client disconnects, the ticket is cancelled
immediately. A search is stopped as soon as none of its sentences has a live ticket.
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

TICK_SECONDS = 0.25  # interval at which a waiting thread checks whether its request was cancelled

Result = TypeVar("Result")


class Ticket:
    """Tells whether a request is still waiting for its translations, which it does for at most `seconds`.

    Several threads share the ticket of a request.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._reason: str | None = None
        self.client_has_left = False

    @property
    def is_live(self) -> bool:
        """Returns True if the request was not cancelled and its deadline has not passed."""
        return self._reason is None and time.monotonic() < self._deadline

    def cancel(self, reason: str) -> None:
        """Cancels the request, so that `check` and `result` raise SearchStoppedError with `reason`."""
        self._reason = reason

    def client_leaves(self) -> None:
        """Cancels the request because its client has disconnected."""
        self.client_has_left = True
        self.cancel("the client has left")

    def check(self) -> None:
        """Raises SearchStoppedError if the request was cancelled or its deadline has passed."""
        if self._reason is not None:
            raise SearchStoppedError(self._reason)
        if not self.is_live:
            raise SearchStoppedError(f"the translation did not end within {self._seconds:g} seconds")

    def result(self, future: "Future[Result]") -> Result:
        """Waits for the result of `future`; raises SearchStoppedError if the request is cancelled or times out."""
        is_done = False
        while not is_done:
            self.check()
            is_done = bool(wait([future], min(TICK_SECONDS, max(0.0, self._deadline - time.monotonic()))).done)
        try:
            return future.result()
        except SearchStoppedError:
            self.check()  # raises the error of this request instead, if its own ticket has ended
            raise


GROUP_TOKENS = 1024  # number of tokens at which a group is full; new requests wait until it has been translated
MAX_TOKENS = 512  # largest number of tokens of a sentence or a prefix; more would hold up all others for seconds

NBest = list[Translation]


class SearchRequest(NamedTuple):
    """The translator and the search method for the sentences of a request.

    Requests with the same source tags and the same search method can share a group.
    """

    translator: Translator
    method: SearchMethod

    def is_same(self, other: "SearchRequest") -> bool:
        """Returns True if sentences of both requests may be in one batch; both must be for the same models."""
        return self.method == other.method and self.translator.source_tags == other.translator.source_tags


class WaitingSentence(NamedTuple):
    """A sentence that is waiting to be translated."""

    text: str
    prefix: str
    tokens: int  # number of tokens in the text or the prefix, whichever is longer, plus one for EOS
    future: Future[NBest]


class Job(NamedTuple):
    """The sentences of a request that are not yet part of a group."""

    request: SearchRequest
    ticket: Ticket
    waiting: list[WaitingSentence]


class BatchQueue:
    """A queue of sentences for one model, which a thread translates until the queue is closed."""

    def __init__(self, observe_group: Callable[[int], None] = lambda sentences: None) -> None:
        """Starts the thread, which calls `observe_group` with the number of sentences in each group."""
        self.inspecting = threading.Lock()  # lets at most one thread explain or score while searches run
        self._observe_group = observe_group
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="translations", daemon=True)
        self._thread.start()

    @property
    def is_working(self) -> bool:
        """Returns True if the queue accepts sentences."""
        return self._thread.is_alive() and not self._closed

    @property
    def waiting_sentences(self) -> int:
        """Returns the number of sentences that are not yet part of a group."""
        with self._changed:
            return sum(len(job.waiting) for job in self._jobs)

    def submit(
        self, request: SearchRequest, texts: Sequence[str], prefixes: Sequence[str] | None, ticket: Ticket
    ) -> list[Future[NBest]]:
        """Queues texts, and returns a future with the n-best translations of each text.

        A text that contains nothing to translate is copied. Raises ValueError if a text or a prefix is too long, if a
        text that is copied has a prefix, or if there are not as many prefixes as texts. Raises SearchStoppedError if
        the queue is closed.
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
        """Translates all waiting sentences, then ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        """Translates one group after another until the queue is closed; the thread runs this method."""
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
        """Removes the sentences of the next group from the queue and returns them.

        The first job and every job with the same search request contribute one sentence in turn, until the group is
        full. Those of these jobs that still have sentences move to the back of the queue. Jobs whose tickets are no
        longer live are dropped.
        """
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
        """Translates a group; if an error occurs, it becomes the result of every sentence without a translation."""
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
        """Translates the sentences batch by batch, and sets the result of each future as soon as it is available."""
        translator = request.translator.with_stop_check(check)
        texts = [sentence.text for sentence in sentences]
        prefixes = [sentence.prefix for sentence in sentences]
        for index, best in translator.translate_each(texts, request.method, prefixes if any(prefixes) else None):
            if isinstance(best, str):  # the error message for a sentence that does not fit into memory
                sentences[index].future.set_exception(LineTooLargeError(1, best))
            else:
                sentences[index].future.set_result(best)


def _count_subwords(vocabulary: TokenVocabulary, texts: Sequence[str], name: str, remedy: str) -> list[int]:
    """Counts the subwords of each text; raises ValueError if a text has more than MAX_TOKENS.

    In the message, a text is called `name`, and `remedy` is the advice at the end.
    """
    counts = list(map(len, vocabulary.encode(list(texts))))
    if (longest := max(counts, default=0)) > MAX_TOKENS:
        number = counts.index(longest) + 1
        raise ValueError(f"{name} {number} has {longest:,} subwords, more than {MAX_TOKENS}; {remedy}")
    return counts
