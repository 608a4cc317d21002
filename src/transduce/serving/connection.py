"""HTTP connections that limit how long a client may keep the server waiting, and how many connections may be open.

uvicorn itself waits indefinitely for the head of a request (its request line and headers), for the rest of a body that
nobody reads, and for a client that does not read its answer. Anyone could therefore keep thousands of connections open,
until the server could not open any more files. The diagram shows the life of a connection, and what limits each phase:

    client connects      head complete          body complete          answer sent           next head …
         |── head arrives ──|── body arrives ──────|── server computes ──|── client reads ──|── idle ──|
         |   HEAD_SECONDS   |   limits.BodyLimit:  |  Limits.seconds,    | UNREAD_SECONDS   | HEAD_SECONDS
         |                  |   bytes and seconds  |  of the Ticket      | without progress | without a head

- While the head arrives, the server is waiting for the client and has nothing to compute yet. The limit is 10 seconds.
  Between two requests, uvicorn itself closes a connection after 5 seconds; once the next head has begun to arrive, the
  limit of 10 seconds applies.
- While the body arrives, the application is waiting for it, and `limits.BodyLimit` ends the wait with status 408. This
  module sets no limit here, because it could interrupt an application that is already working on part of the body.
- While the server computes, the client is waiting. The ticket of the request contains the deadline (see `batch_queue`).
- While the client reads, the limit applies to the time in which no bytes leave the buffer. A slow client therefore
  receives a long answer in full, but a client that does not read anything is disconnected.

There is no timer for each limit. Instead, `_check` runs once a second, compares the state of the connection with the
previous state, and measures the time since the last change. A connection may therefore be closed up to a second late,
which does no harm.

The number of connections is limited as well. A new connection above `MAX_CONNECTIONS` is not refused, because a
thousand idle connections could then lock out everybody else. Instead, the server waits for SETTLE_SECONDS, so that an
honest client can send its request, and then closes the connection on which it has been waiting longest for the client.
Connections on which no request was ever answered are closed first. A flood of silent connections is therefore closed
before the connection of a client that is between two requests.
"""

import asyncio
import math

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 1000
HEAD_SECONDS = 10.0  # time for the head of a request to arrive
UNREAD_SECONDS = 60.0  # time in which a client must read some of its answer; the default of nginx's send_timeout
CHECK_SECONDS = 1.0  # time between two checks of a connection
SETTLE_SECONDS = 0.1  # long enough for a client that sends its request immediately, even if many clients connect


class BoundedConnection(H11Protocol):
    """A connection that is closed if its client keeps the server waiting for too long.

    If there are more than `MAX_CONNECTIONS`, the connection that has been waiting longest for its client is closed.
    Connections on which a request has been answered are closed last.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts checking the connection."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._resumed = 0
        self._progress: object = None
        self._has_answered = False
        self._check()
        if len(self.connections) > MAX_CONNECTIONS:
            self.loop.call_later(SETTLE_SECONDS, self._end_surplus)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops checking the connection."""
        self._timer.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Records that the client has read some of the answer."""
        self._resumed += 1
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Records that a request has been answered on this connection."""
        self._has_answered = True
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that is not valid HTTP; if a response has already begun, only closes the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle is not None:  # no other answer may follow
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    @property
    def _is_complete(self) -> bool:
        """Returns True if every request that has arrived has been answered."""
        return self.cycle is None or self.cycle.response_complete

    def _check(self) -> None:
        """Closes the connection if its client has kept the server waiting for too long; schedules the next check."""
        unsent, now = self.transport.get_write_buffer_size(), self.loop.time()
        progress = (self.cycle, self._is_complete, unsent, self._resumed)
        if progress != self._progress:
            self._progress, self._since = progress, now
        patience = UNREAD_SECONDS if unsent else HEAD_SECONDS if self._is_complete else math.inf
        if now - self._since >= patience:
            self.transport.abort()
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check)

    def _end_surplus(self) -> None:
        """Closes the connection that has been waiting longest for its client, if there are too many connections.

        Connections without an answered request are closed first, because the clients of the others are known to send
        complete requests, and may be about to send the next one.
        """
        connections = (each for each in self.connections if isinstance(each, BoundedConnection))
        # On these connections, the server waits for the client to send a head or the rest of a body, or to read.
        waiting = [connection for connection in connections if connection._is_complete or connection.cycle.more_body]
        if waiting and len(self.connections) > MAX_CONNECTIONS:
            longest = min(waiting, key=lambda connection: (connection._has_answered, connection._since))
            longest.transport.abort()
            self.connections.discard(longest)  # uvicorn does this later; until then it would be chosen again
