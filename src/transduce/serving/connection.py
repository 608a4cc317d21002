"""Connections of clients: uvicorn's, but with limits on the time that a client takes and on the number of connections.

uvicorn waits without end for the head of a request, for the rest of a body that is not read, and for a client that does
not read its answer. That way anybody could hold thousands of connections, until the server could open no more files.
The life of a connection, and what limits each part of it:

    client connects      head complete          body complete          answer sent           next head …
         |── head arrives ──|── body arrives ──────|── server computes ──|── client reads ──|── idle ──|
         |   HEAD_SECONDS   |   limits.BodyLimit:  |  Limits.seconds,    | UNREAD_SECONDS   | HEAD_SECONDS
         |                  |   bytes and seconds  |  of the Ticket      | without progress | without a head

- While the head arrives, the server waits for the client and cannot compute anything. The limit is 10 seconds. Between
  two requests, uvicorn itself ends a connection after 5 seconds; once the next head has begun, the limit of 10 seconds
  applies.
- While the body arrives, the application waits for it, and `limits.BodyLimit` ends the wait with status 408. This
  module sets no limit here, because it would cut off an application that computes with a part of the body.
- While the server computes, the client waits. The ticket of the request has the deadline (see `batch_queue`).
- While the client reads, the limit is on the time without any progress (bytes that leave the buffer). A slow client
  gets a long answer in full, and a client that reads nothing is cut off.

All limits are checked once a second instead of with a timer each: `_check` compares the state with the previous state,
and counts from the last change. A connection may therefore end up to a second late, which does no harm.

The number of connections is limited as well. A new connection above `MAX_CONNECTIONS` is not refused, because then a
thousand idle connections would shut everybody out. The server waits SETTLE_SECONDS, in which an honest client sends its
request, and then ends the connection that has waited longest for its client. Connections on which no request was ever
answered end first, so that a flood of silent connections ends itself before it ends a client between two requests.
"""

import asyncio
import math

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 1000
HEAD_SECONDS = 10.0  # time for the head of a request to arrive
UNREAD_SECONDS = 60.0  # time for which a client may read nothing of an answer; the default of nginx's send_timeout
CHECK_SECONDS = 1.0  # time between two checks of a connection
SETTLE_SECONDS = 0.1  # after this time, a client that sends immediately has sent its request, even if many connect


class BoundedConnection(H11Protocol):
    """A connection that ends if its client makes the server wait for too long.

    If there are more than `MAX_CONNECTIONS`, the connection that has waited longest for its client ends; connections on
    which a request was answered end last.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts to watch the connection."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._resumed = 0
        self._progress: object = None
        self._has_answered = False
        self._check()
        if len(self.connections) > MAX_CONNECTIONS:
            self.loop.call_later(SETTLE_SECONDS, self._end_surplus)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops watching the connection."""
        self._timer.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Records that the client reads."""
        self._resumed += 1
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Records that a request was answered."""
        self._has_answered = True
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that is not HTTP; if an answer has begun, it only ends the connection."""
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
        """Ends the connection if its client has done nothing for too long; otherwise checks again later."""
        unsent, now = self.transport.get_write_buffer_size(), self.loop.time()
        progress = (self.cycle, self._is_complete, unsent, self._resumed)
        if progress != self._progress:
            self._progress, self._since = progress, now
        patience = UNREAD_SECONDS if unsent else HEAD_SECONDS if self._is_complete else math.inf
        if now - self._since >= patience:
            self.transport.abort()
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check)

    def _end_surplus(self) -> None:
        """Ends the connection that has waited longest for its client, if there are too many connections.

        A connection with an answered request has shown that its client sends whole requests, and may be sending the
        next.
        """
        connections = (each for each in self.connections if isinstance(each, BoundedConnection))
        # The server waits for the client to send a head or the rest of a body, or to read the answer.
        waiting = [connection for connection in connections if connection._is_complete or connection.cycle.more_body]
        if waiting and len(self.connections) > MAX_CONNECTIONS:
            longest = min(waiting, key=lambda connection: (connection._has_answered, connection._since))
            longest.transport.abort()
            self.connections.discard(longest)  # uvicorn does this too late: it would be counted and chosen again
