"""Hostile connections: clients that send or read nothing, or what is not HTTP; the others are answered meanwhile."""

import contextlib
import json
import logging
import socket
import threading
import time

import pytest
import uvicorn
from fastapi.responses import StreamingResponse
from local_server import OPEN

from transduce.serving import connection
from transduce.serving.document_routes import _parts
from transduce.serving.server import Address, server_config

ASKED = json.dumps({"q": "cat dog", "source": "en", "target": "de"}).encode()
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
REQUEST = HEAD + b"Content-Length: %d\r\n\r\n" % len(ASKED) + ASKED
GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


class LocalPort:
    """A server that listens at a port, in a thread."""

    def __init__(self, server):
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.address = self._listening.getsockname()
        self.uvicorn = uvicorn.Server(server_config(server.application, Address(*self.address), 30))
        self._thread = threading.Thread(target=self.uvicorn.run, args=([self._listening],))
        self._thread.start()

    def close(self):
        self.uvicorn.should_exit = True
        self._thread.join(30)
        self._listening.close()

    def connect(self, *parts):
        client = socket.create_connection(self.address, timeout=20)
        for part in parts:
            client.sendall(part)
        return client

    def exchange(self, *parts):
        """Returns all that the server sends until it ends the connection."""
        with self.connect(*parts) as client:
            return received(client)

    def connections(self):
        return len(self.uvicorn.server_state.connections)


def ask(client):
    """Sends a request on a connection that stays open, and reads the answer."""
    client.sendall(GET)
    content = b""
    while not content.endswith(b'{"status":"ok"}'):
        content += (part := client.recv(1 << 16))
        assert part, content


def received(client):
    """Returns what a connection brings until its end."""
    content = b""
    try:
        while part := client.recv(1 << 16):
            content += part
    except ConnectionResetError:
        pass
    return content


def status(answer):
    return int(answer.split(b" ", 2)[1])


def closing(request):
    return request.replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n")


@pytest.fixture
def port(serve, monkeypatch, caplog):
    """A server whose clients must be fast; it may log no error."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.4)
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 0.4)
    monkeypatch.setattr(connection, "CHECK_SECONDS", 0.05)
    server = serve(OPEN)
    monkeypatch.setattr(server.service, "close", lambda: None)  # the models serve other tests
    port = LocalPort(server)
    yield port
    monkeypatch.setattr(connection, "HEAD_SECONDS", 10)
    assert status(port.exchange(closing(REQUEST))) == 200
    port.close()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_head_that_does_not_end_ends_the_connection(port):
    with port.connect(HEAD) as slow, port.connect() as silent, port.connect(GET) as kept:
        start = time.monotonic()
        kept.sendall(GET[:20])  # the beginning of a second request
        for client, expected in ((silent, b""), (slow, b""), (kept, b"HTTP/1.1 200")):
            assert received(client).startswith(expected)
            assert bool(expected) == (client is kept)
        assert time.monotonic() - start < 10


def test_bytes_that_drop_in_do_not_prolong_the_wait(port):
    unread = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"  # answered before its body ends
    for parts in (HEAD, unread):
        with port.connect(parts) as client:
            deadline = time.monotonic() + 20
            with contextlib.suppress(ConnectionError):
                while time.monotonic() < deadline:
                    client.sendall(b"a")
                    time.sleep(0.05)
            assert time.monotonic() < deadline


def test_a_client_that_does_not_read_ends_and_one_that_reads_slowly_gets_all(port, monkeypatch):
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 5)
    route = port.uvicorn.config.app.router
    content = b"a" * (16 << 20)  # more than the buffers of both sides

    @route.get("/large")
    async def large():
        return StreamingResponse(_parts(content), headers={"Content-Length": str(len(content))})

    asked = GET.replace(b"/health", b"/large")
    with port.connect(asked), port.connect(closing(asked)) as slow:
        slow_content = b""
        while part := slow.recv(1 << 20):
            slow_content += part
            time.sleep(0.01)
        assert slow_content.endswith(content)
        deadline = time.monotonic() + 60
        while port.connections():
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + b"Content-Length: 99\r\n\r\n{"])
def test_a_new_connection_ends_the_one_that_waits_longest_for_its_client(port, monkeypatch, begun):
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(connection, "HEAD_SECONDS", 60)
    good = port.connect()
    ask(good)
    clients = []
    for number in range(30):
        clients.append(port.connect(begun))
        if number in (5, 25):
            assert status(port.exchange(closing(REQUEST))) == 200
    deadline = time.monotonic() + 10
    while port.connections() > 20:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    ask(good)
    ended = [received(client) for client in clients[:9]]
    if begun.endswith(b"{"):  # one whose body was begun may get an answer
        assert all(part == b"" or status(part) in (408, 503) for part in ended), ended
    else:
        assert ended == [b""] * 9
    for client in [good, *clients]:
        client.close()


def test_a_client_that_sends_at_once_is_answered_in_a_crowd(port, monkeypatch):
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(connection, "SETTLE_SECONDS", 30)
    monkeypatch.setattr(connection, "HEAD_SECONDS", 60)
    good = port.connect()
    crowd = [port.connect() for _ in range(40)]
    ask(good)
    for client in [good, *crowd]:
        client.close()


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        (b"\x16\x03\x01 not HTTP\r\n\r\n", {400}),
        (GET.replace(b"Host: x\r\n", b""), {400}),
        (GET.replace(b"Host: x", b"Host: \xff\xfe"), {200, 400}),
        (GET.replace(b"Host: x", b"Host: x\r\nFoo: " + b"a" * 600_000), {400}),
        (b"GET /" + b"a" * 600_000, {400}),
        (HEAD + b"Content-Length: -5\r\n\r\n", {400}),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}", {400}),
        (HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", {400, 413}),
        (HEAD + b"Content-Length: 52428800\r\n\r\n", {413}),
        (HEAD + b"Content-Length: 2\r\n\r\n" + ASKED, {400}),  # too short: the rest is not a request
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", {400}),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", {400, 501}),
        (HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /ready HTTP/1.1\r\n\r\n", {400}),
        (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", {415}),
        (HEAD + b"Content-Length: 200000\r\n\r\n" + b'{"q":' + b"[" * 199_995, {400}),
        (HEAD + b"Content-Length: 50000\r\n\r\n" + b'{"alternatives": ' + b"9" * 49_982 + b"}", {400}),
        (HEAD + b"Content-Length: 9\r\n\r\n" + b'{"q":"\xff"}', {400}),
        (HEAD.replace(b"/json", b"/x-www-form-urlencoded") + b"Content-Length: 6\r\n\r\nq=%FF%", {400}),
        (HEAD.replace(b"application/json", b"multipart/form-data") + b"Content-Length: 3\r\n\r\nabc", {400}),
        (GET.replace(b"/health", b"/%ff%00/../..//"), {404}),
        (GET.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"), {200, 426}),
    ],
)
def test_what_is_no_request_is_refused(port, sent, statuses):
    with port.connect() as client:
        with contextlib.suppress(ConnectionError):  # refused before the end
            client.sendall(sent)
        answer = received(client)
        assert not answer or status(answer) in statuses
        assert answer or len(sent) > 100_000


def test_a_body_that_is_no_http_ends_the_connection_also_after_the_answer(port):
    chunked = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with port.connect(chunked) as client:
        answer = client.recv(1 << 16)
        client.sendall(b"zz\r\n")
        answer += received(client)
        assert (status(answer), answer.count(b"HTTP/1.1")) == (404, 1)


def test_old_and_unusual_clients_are_answered(port):
    old = REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0")
    answer = port.exchange(old)
    assert (status(answer), b"translatedText" in answer) == (200, True)
    answers = port.exchange(REQUEST * 3)  # pipelined; the server ends the idle connection
    assert answers.count(b"HTTP/1.1 200") == answers.count(b"translatedText") == 3
    slow = [REQUEST[place : place + 20] for place in range(0, len(REQUEST), 20)]
    assert status(port.exchange(*slow)) == 200


@pytest.mark.parametrize("sent", [REQUEST, REQUEST[:-5], HEAD, b""])
def test_a_client_that_ends_its_side_or_leaves_disturbs_nothing(port, sent):
    with port.connect(sent) as client:
        client.shutdown(socket.SHUT_WR)
        received(client)
    port.connect(sent).close()
