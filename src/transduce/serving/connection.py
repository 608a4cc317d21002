"""Connections of clients: uvicorn's, with bounds on the time that a client takes and on the number of connections.

uvicorn waits without end for the head of a request, for the rest of a body that is not read, and for a client that does
not read its answer. Anybody could hold thousands of connections that way, until the server has no file left to open.
The life of a connection, and what bounds each part of it:

    client connects      head complete          body complete          answer sent           next head …
         |── head arrives ──|── body arrives ──────|── server computes ──|── client reads ──|── idle ──|
         |   HEAD_SECONDS   |   limits.BodyLimit:  |  Limits.seconds,    | UNREAD_SECONDS   | HEAD_SECONDS
         |                  |   bytes and seconds  |  of the Ticket      | without progress | without a head

- While the head arrives it is the client's turn and nothing can be computed: 10 seconds. Between two requests uvicorn
  itself ends a connection after 5 seconds; once the next head has begun, the 10 seconds hold.
- While the body arrives, the application waits for it, and `limits.BodyLimit` ends the wait with status 408. Here the
  connection has no bound of its own: an application that computes with a part of the body would be cut off.
- While the server computes, it is not the client's turn. The ticket of the request has the deadline (see
  `batch_queue`).
- While the client reads, the bound is on the time without any progress (bytes that leave the buffer), so that a slow
  client gets a long answer in full and one that reads nothing is cut off.

All bounds are checked once a second rather than by a timer each: `_check` compares what it sees with what it saw, and
counts from the last change. A connection is therefore ended up to a second late, which harms nobody.

The number of connections is bounded as well. A new one above `MAX_CONNECTIONS` is not refused, because then a thousand
idle ones would shut everybody out; it waits SETTLE_SECONDS, in which an honest client sends its request, and then the
one that has waited longest for its client ends: first those on which nothing was ever answered, so that a flood of
silent connections ends itself before it ends a client that is between two requests.
"""

import asyncio
import math

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 1000
HEAD_SECONDS = 10.0  # until the head of a request has arrived
UNREAD_SECONDS = 60.0  # without the client reading anything of an answer; nginx's send_timeout has this default
CHECK_SECONDS = 1.0  # between two looks at a connection
SETTLE_SECONDS = 0.1  # after which a client that sends at once is known from one that waits, also in a crowd


class BoundedConnection(H11Protocol):
    """A connection that ends where its client lets the server wait for too long.

    Where there are more than `MAX_CONNECTIONS`, the one that has waited for its client for the longest time ends; those
    on which a request was answered end last.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to watch the connection."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._resumed = 0
        self._progress: object = None
        self._has_answered = False
        self._check()
        if len(self.connections) > MAX_CONNECTIONS:
            self.loop.call_later(SETTLE_SECONDS, self._end_surplus)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the watch."""
        self._timer.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Notes that the client reads."""
        self._resumed += 1
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Notes that a request was answered."""
        self._has_answered = True
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP; only ends the connection where an answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle is not None:  # no other answer may follow
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    @property
    def _is_complete(self) -> bool:
        """Whether every request that has arrived is answered."""
        return self.cycle is None or self.cycle.response_complete

    def _check(self) -> None:
        """Ends the connection where its client has done nothing for too long; looks again later otherwise."""
        unsent, now = self.transport.get_write_buffer_size(), self.loop.time()
        progress = (self.cycle, self._is_complete, unsent, self._resumed)
        if progress != self._progress:
            self._progress, self._since = progress, now
        patience = UNREAD_SECONDS if unsent else HEAD_SECONDS if self._is_complete else math.inf
        if now - self._since >= patience:
            self.transport.abort()
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check)

    def _end_surplus(self) -> None:
        """Ends the connection that has waited for its client for the longest time, if there are too many and one waits.

        One with an answered request has shown that its client sends whole ones, and may be sending the next.
        """
        connections = (each for each in self.connections if isinstance(each, BoundedConnection))
        # The next thing to happen is the client's: to send a head or the rest of a body, or to read the answer.
        waiting = [connection for connection in connections if connection._is_complete or connection.cycle.more_body]
        if waiting and len(self.connections) > MAX_CONNECTIONS:
            longest = min(waiting, key=lambda connection: (connection._has_answered, connection._since))
            longest.transport.abort()
            self.connections.discard(longest)  # uvicorn does it later; until then it would be counted and chosen again
