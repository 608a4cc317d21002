"""Limits: keys, rates, waiting requests, times and bodies; what clients that leave set free."""

import inspect
import json
import threading
import time
import tracemalloc
from concurrent.futures import Future, wait

import anyio
import pytest
from fastapi import HTTPException
from local_server import OPEN

from transduce.commands.serve import serve as serve_command
from transduce.serving.batch_queue import Ticket
from transduce.serving.limits import ApiKeys, Limits

ASKED = {"q": "cat dog", "source": "en", "target": "de"}
LINE = {"text": "cat dog"}


def test_the_command_has_the_defaults_of_the_server():
    options = {name: option.default for name, option in inspect.signature(serve_command).parameters.items()}
    limits = Limits()
    assert options["max_characters"] == limits.characters
    assert options["max_texts"] == limits.texts
    assert options["max_document_characters"] == limits.document_characters
    assert options["requests_per_minute"] == limits.requests_per_minute
    assert options["max_waiting"] == limits.accepted
    assert options["timeout"] == limits.seconds


def test_keys_are_of_a_file_and_stand_with_the_other_values_or_in_a_header(serve, tmp_path):
    (tmp_path / "keys").write_text("# ours\nfirst\n\nzweiter-Schlüssel \n", encoding="utf-8")
    server = serve(OPEN, ApiKeys.read(tmp_path / "keys"))
    assert server.post("/translate", json=ASKED).json() == {
        "error": "Please contact the server operator to get an API key"
    }
    for place in ("json", "data", "params"):
        wrong = server.post("/translate", **{place: {**ASKED, "api_key": "First"}})
        assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
        assert server.post("/translate", **{place: {**ASKED, "api_key": "zweiter-Schlüssel"}}).status_code == 200
    assert server.post("/v1/translate", json=LINE).status_code == 403
    assert server.post("/v1/translate", json=LINE, headers={"Authorization": "Bearer first"}).status_code == 200
    assert server.post("/v1/translate", json=LINE, headers={"Authorization": "Basic first"}).status_code == 403
    (tmp_path / "keys").write_text("# none\n")
    with pytest.raises(ValueError, match="keys has no key: write one a line"):
        ApiKeys.read(tmp_path / "keys")
    (tmp_path / "keys").write_bytes("Schlüssel\n".encode("latin-1"))
    with pytest.raises(ValueError, match="keys is not UTF-8; convert it to UTF-8"):
        ApiKeys.read(tmp_path / "keys")


def test_byte_order_marks_and_indented_comments_are_no_keys(tmp_path):
    (tmp_path / "keys").write_text("first\n # note\n", encoding="utf-8-sig")
    keys = ApiKeys.read(tmp_path / "keys")
    keys.check("first")
    with pytest.raises(HTTPException, match="Invalid API key"):
        keys.check("# note")


@pytest.mark.parametrize(("keys", "statuses"), [((), [200, 200, 429]), (("a0", "a1", "a2"), [200, 200, 200])])
def test_a_client_is_a_key_where_keys_are_required_and_an_address_elsewhere(serve, keys, statuses):
    server = serve(Limits(requests_per_minute=2), ApiKeys(keys))
    answers = [server.post("/detect", json={"q": "cat", "api_key": f"a{number}"}) for number in range(3)]
    assert [answer.status_code for answer in answers] == statuses


def test_a_client_has_so_many_requests_a_minute_and_another_client_has_its_own(serve):
    server = serve(Limits(requests_per_minute=3))

    async def statuses(address):
        async with server.client(client=(address, 1)) as client:
            return [(await client.post("/detect", json={"q": "cat"})).status_code for _ in range(5)]

    assert anyio.run(statuses, "1.2.3.4") == [200, 200, 200, 429, 429]
    assert anyio.run(statuses, "1.2.3.5") == [200, 200, 200, 429, 429]
    refused = server.client(client=("1.2.3.4", 1))

    async def refused_once():
        async with refused:
            return await refused.post("/translate", json=ASKED)

    answer = anyio.run(refused_once)
    assert answer.json()["error"].startswith("Slowdown: 3 per 1 minute")
    assert answer.headers["retry-after"] == "60"


@pytest.fixture
def gate(models, monkeypatch):
    """Holds every search until it is set."""
    (queue,) = models.queues
    gate, search = threading.Event(), queue._search

    def held(request, sentences, check):
        while not gate.wait(0.01):
            check()
        search(request, sentences, check)

    monkeypatch.setattr(queue, "_search", held)
    yield gate
    gate.set()


async def until(condition):
    """Waits until the condition holds."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.01)


def test_too_many_waiting_requests_get_status_503_and_those_that_wait_are_answered(serve, gate):
    server = serve(OPEN._replace(accepted=3))
    answers = []

    async def post(client):
        answers.append(await client.post("/translate", json=ASKED))

    async def run():
        async with server.client() as client, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(post, client)
            await until(lambda: server.service.accepted == 3)
            refused = await client.post("/v1/translate", json=LINE)
            streamed = await client.post("/v1/translate", json={**LINE, "stream": True})
            gate.set()
        return refused, streamed

    for refused in anyio.run(run):
        assert refused.status_code == 503
        assert refused.json() == {"error": "Too many requests are waiting: try again later"}
        assert int(refused.headers["retry-after"]) > 0
    assert [answer.status_code for answer in answers] == [200] * 3
    assert server.service.accepted == 0
    assert server.post("/v1/translate", json=LINE).status_code == 200


def test_a_request_that_takes_too_long_gets_status_503(serve, gate):
    server = serve(OPEN._replace(seconds=0.2))
    start = time.monotonic()
    for path, values in (("/translate", ASKED), ("/v1/translate", LINE), ("/v1/translate", {**LINE, "stream": True})):
        answer = server.post(path, json=values)
        assert answer.status_code == 503
        assert answer.json()["error"].startswith("the translation did not end within 0.2 seconds; send less text")
    assert time.monotonic() - start < 30
    assert server.service.accepted == 0


@pytest.mark.parametrize("values", [LINE, {**LINE, "stream": True}])
def test_a_client_that_leaves_sets_its_place_free(serve, gate, values):
    server = serve()
    messages = [{"type": "http.request", "body": json.dumps(values).encode(), "more_body": False}]
    sent = []

    async def run():
        async def receive():
            if messages:
                return messages.pop()
            await until(lambda: server.service.accepted == 1)
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": "/v1/translate", "raw_path": b"/v1/translate", "query_string": b"", "root_path": "",
            "headers": [(b"content-type", b"application/json")], "client": ("1.2.3.4", 5), "server": ("server", 80),
        }  # fmt: skip
        with anyio.fail_after(30):
            await server.application(scope, receive, send)
        await until(lambda: server.service.accepted == 0)

    anyio.run(run)
    assert sent[0]["status"] == 499  # no overload, which status 503 would be
    gate.set()
    assert server.post("/v1/translate", json=LINE).status_code == 200


def test_bodies_are_bounded(serve):
    server = serve(OPEN._replace(characters=100, texts=2))
    most = server.service.limits.body_bytes
    assert most < 10_000
    large = {**ASKED, "q": "a" * most}
    for place in ("json", "data"):
        answer = server.post("/translate", **{place: large})
        assert (answer.status_code, set(answer.json())) == (413, {"error"})

    async def parts():
        for _ in range(most):
            yield b"aa"

    answer = server.post("/v1/translate", content=parts(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    answer = server.post("/translate", json=ASKED, headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()) == (415, {"error": "Send the body without Content-Encoding"})
    # Every text within the limits fits, however it is escaped.
    escaped = '{"q": "' + "\\ud83d\\ude00" * 100 + '", "source": "en", "target": "de"}'
    headers = {"Content-Type": "application/json"}
    assert server.post("/translate", content=escaped, headers=headers).status_code == 200


def test_a_body_that_does_not_arrive_gets_status_408(serve, monkeypatch):
    monkeypatch.setattr("transduce.serving.limits.BODY_SECONDS", 0.1)
    server = serve()

    async def parts():
        yield b'{"q": "cat'
        await anyio.sleep(60)

    headers = {"Content-Type": "application/json"}
    for path in ("/translate", "/v1/translate"):
        answer = server.post(path, content=parts(), headers=headers)
        assert (answer.status_code, set(answer.json())) == (408, {"error"})


@pytest.mark.parametrize("path", ["/translate", "/detect", "/translate_file", "/v1/translate", "/v1/sentences"])
def test_faulty_requests_count_against_the_address_of_their_client(serve, path):
    server = serve(Limits(requests_per_minute=2))
    for content in ("{", '{"source": 3}', "[]"):
        answer = server.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 429
    assert server.post("/translate", json=ASKED).status_code == 429


@pytest.mark.parametrize(("path", "name"), [("/translate", "q"), ("/v1/translate", "text")])
def test_a_list_of_a_hundred_thousand_numbers_is_refused_at_once(server, path, name):
    asked = {**(ASKED if name == "q" else LINE), name: [0] * 100_000}
    tracemalloc.start()
    answer = server.post(path, json=asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": f"Invalid request: {name}: Input should be a valid string"},
    )
    assert peak < 20e6


def test_addresses_of_one_network_of_ipv6_are_one_client(serve):
    server = serve(Limits(requests_per_minute=2))

    async def status(address):
        async with server.client(client=(address, 1)) as client:
            return (await client.post("/detect", json={"q": "cat"})).status_code

    addresses = ("2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3", "2001:db8:0:1::1", "::ffff:1.2.3.4", "1.2.3.4")
    assert [anyio.run(status, address) for address in addresses] == [200, 200, 429, 200, 200, 200]
    assert anyio.run(status, "::ffff:1.2.3.4") == 429


@pytest.mark.parametrize("proxy", ["nginx", "10.0.0.1/8", "10.0.0.0/8,127.0.0.1", "localhost", "*"])
def test_a_proxy_that_no_client_has_as_its_address_is_refused(command, tmp_path, proxy):
    code, _, error = command("serve", tmp_path, "--trusted-proxy", proxy)
    assert (code, error.startswith(f"transduce: --trusted-proxy {proxy}: write an address")) == (2, True), error


def test_keys_beyond_ascii_are_read_as_curl_and_as_browsers_send_them(serve):
    server = serve(OPEN, ApiKeys(["zweiter-Schlüssel"]))
    for header in ("zweiter-Schlüssel".encode(), "zweiter-Schlüssel".encode("latin-1")):
        headers = {"Authorization": b"Bearer " + header}
        assert server.post("/v1/translate", json=LINE, headers=headers).status_code == 200


def test_a_form_may_be_as_large_as_json(serve):
    server = serve(OPEN._replace(texts=2000, characters=300_000))
    assert server.post("/detect", data={"q": "кот " * 50_000}).status_code == 200
    form = {"q": ["cat"] * 1200, "source": "en", "target": "en"}
    answer = server.post("/translate", data=form)
    assert (answer.status_code, len(answer.json()["translatedText"])) == (200, 1200)


def test_keys_are_not_guessed_without_limit(serve):
    server = serve(Limits(requests_per_minute=3), ApiKeys(("right",)))
    answers = [server.post("/detect", json={"q": "cat", "api_key": f"wrong{number}"}) for number in range(5)]
    assert [answer.status_code for answer in answers] == [403, 403, 403, 429, 429]
    assert server.post("/detect", json={"q": "cat", "api_key": "right"}).status_code == 200


def test_a_body_that_nobody_reads_is_bounded_too(serve, gate, caplog):
    server = serve(OPEN._replace(seconds=30.0))

    async def body():
        for _ in range(40):
            yield b"x" * 100_000

    answer = server.post("/translate", params=ASKED, content=body(), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 503
    assert "a body has at most" in answer.json()["error"]
    assert "never retrieved" not in caplog.text


def test_a_result_that_arrives_when_the_wait_ends_is_returned(monkeypatch):
    future = Future()
    monkeypatch.setattr(
        "transduce.serving.batch_queue.wait", lambda futures, timeout: future.set_result(7) or wait(futures)
    )
    assert Ticket(5.0).result(future) == 7


def test_a_failure_of_the_work_is_raised_even_if_it_is_a_timeout():
    future = Future()
    future.set_exception(TimeoutError("of the work"))
    with pytest.raises(TimeoutError, match="of the work"):
        Ticket(5.0).result(future)
