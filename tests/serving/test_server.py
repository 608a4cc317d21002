"""The server as a process: it starts, logs without texts, answers what it accepted, and ends with the right code."""

import json
import random
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from transduce.serving.request_log import Metrics
from transduce.serving.served_models import serve_model
from transduce.serving.server import SignalledServer, load_models
from transduce.text.directions import Direction

WORDS = "ant bee cat dog eel fox gnu hen ibis jay kite lark mole newt owl pig".split()

ANSWERED = 'transduce_requests_total{route="/translate",status="200"}'


class ServerProcess:
    """`transduce serve` in a process of its own."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "transduce", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        lines = iter(self.process.stderr.readline, "")  # the first may say that searches are compiled
        started = next(line for line in lines if line.startswith("serving "))
        self.url = re.fullmatch(r"serving en-de at (http://127\.0\.0\.1:\d+)\n", started)[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def metric(self, name):
        lines = httpx.get(f"{self.url}/metrics", timeout=60).text.splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)

    def end(self, number):
        """Sends a signal; returns the exit code and what stands on standard error."""
        self.process.send_signal(number)
        error = self.process.communicate(timeout=120)[1]
        return self.process.returncode, error


def test_after_sigterm_every_accepted_request_is_answered(fluent, translator):
    drawn, count = random.Random(1), 60
    texts = [[" ".join(drawn.choices(WORDS, k=16)) for _ in range(95)] for _ in range(count)]

    def post(number):
        asked = {"q": texts[number], "source": "en", "target": "de"}
        headers = {"X-Forwarded-For": f"1.2.3.{number}"}  # which anybody can write
        return client.post(f"{server.url}/translate", json=asked, headers=headers)

    with (
        httpx.Client(timeout=120, limits=httpx.Limits(max_connections=count)) as client,
        ServerProcess(fluent, "--timeout", 100) as server,
        ThreadPoolExecutor(count) as clients,
    ):
        answers = [clients.submit(post, number) for number in range(count)]
        deadline = time.monotonic() + 60
        # In this order: a request that is answered meanwhile counts too late, and not twice.
        while server.metric(ANSWERED) + server.metric("transduce_accepted_requests") < count:
            assert time.monotonic() < deadline
        assert not all(answer.done() for answer in answers)
        code, error = server.end(signal.SIGTERM)
        assert code == 143
        for answer, lines in zip(answers, texts, strict=True):
            expected = translator.translate(lines)
            assert answer.result().json() == {"translatedText": expected}
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/health")
    records = [json.loads(line) for line in error.splitlines()]
    posts = [record for record in records if record["route"] == "/translate"]
    assert [(record["status"], record["texts"]) for record in posts] == [(200, 95)] * count
    assert sum(record["characters"] for record in posts) == sum(len(line) for lines in texts for line in lines)
    assert "owl" not in error


def test_a_hang_up_ends_the_server_like_sigterm(fluent):
    with ServerProcess(fluent) as server, ThreadPoolExecutor(1) as clients:
        asked = {"q": [" ".join(WORDS)] * 90, "source": "en", "target": "de"}
        answer = clients.submit(httpx.post, f"{server.url}/translate", json=asked, timeout=100)
        deadline = time.monotonic() + 60
        while not server.metric(ANSWERED) + server.metric("transduce_accepted_requests"):
            assert time.monotonic() < deadline
        code, _ = server.end(signal.SIGHUP)
        assert (code, answer.result().status_code) == (143, 200)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_server_at_once(second):
    server = SignalledServer(uvicorn.Config(FastAPI()))
    server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    server.handle_exit(second, None)
    assert server.force_exit


def test_texts_are_logged_and_proxies_believed_if_they_are_named_and_ctrl_c_ends_with_130(fluent):
    options = ("--log-texts", "--trusted-proxy", "127.0.0.0/8", "--requests-per-minute", 1)
    with ServerProcess(fluent, *options) as server:
        left = 60 - time.time() % 60
        if left < 10:
            time.sleep(left)  # at the end of a minute the limit lets one request more pass
        asked = {"q": "cat dog", "source": "en", "target": "de"}
        clients = ("1.2.3.4", "1.2.3.5", "9.9.9.9, 1.2.3.4")  # the last writes a header of its own
        answers = [
            httpx.post(f"{server.url}/translate", json=asked, headers={"X-Forwarded-For": client}, timeout=60)
            for client in clients
        ]
        code, error = server.end(signal.SIGINT)
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert code == 130
    assert json.loads(error.splitlines()[0])["content"] == ["cat dog"]


def test_a_trusted_proxy_may_name_the_path_that_it_removed(fluent):
    file, languages = {"file": ("a.txt", b"cat dog")}, {"source": "en", "target": "de"}

    def address(server, prefix):
        headers = {"X-Forwarded-Prefix": prefix, "X-Forwarded-Proto": "https", "Host": "translate.example.org"}
        answer = httpx.post(f"{server.url}/translate_file", data=languages, files=file, headers=headers, timeout=60)
        return answer.json()["translatedFileUrl"]

    with ServerProcess(fluent, "--trusted-proxy", "127.0.0.1") as server:
        begin = "https://translate.example.org"
        assert address(server, "/translate/").startswith(f"{begin}/translate/download_file/")
        assert address(server, "/a/b-c").startswith(f"{begin}/a/b-c/download_file/")
        for wrong in ("translate", "//evil.example.org", "/a?b", "/ä".encode()):
            assert address(server, wrong).startswith(f"{begin}/download_file/")
    with ServerProcess(fluent) as server:
        assert address(server, "/translate").startswith("http://translate.example.org/download_file/")


def test_what_cannot_be_served_is_named(command, fluent, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, error = command("serve", fluent, "--port", port)
        assert (code, error) == (2, f"transduce: 127.0.0.1:{port}: address already in use\n")
    for arguments, message in (
        ([tmp_path / "nothing"], "nothing"),
        ([fluent, fluent], "two models translate en-de: serve one of them"),
        ([f"fr:de={fluent}"], f"fr:de={fluent}: the model translates en:de"),
        ([fluent, "--keys", tmp_path / "nokeys"], "nokeys"),
    ):
        code, out, error = command("serve", *arguments)
        assert (code, out) == (2, "")
        assert message in error


def test_a_model_that_does_not_record_its_languages_is_named_with_them(fluent, tmp_path, monkeypatch):
    from transduce.translation.translator import Translator

    load = Translator.load

    def nameless(*directories, **options):
        translator = load(*directories, **options)
        config = translator.configs[0].model_copy(update={"source_language": None, "target_language": None})
        translator.configs = (config,)
        return translator

    monkeypatch.setattr(Translator, "load", nameless)
    with pytest.raises(ValueError, match=f"does not record its languages: name them, such as en:de={fluent}"):
        load_models([str(fluent)], Metrics())
    served = load_models([f"nl:pt-BR={fluent}"], Metrics())
    assert [str(direction) for direction in served.directions] == ["nl-pt-BR"]
    assert served.language("pb") == served.language("pt_br") == "pt-BR"
    served.close()


def test_searches_with_a_prefix_are_compiled_before_a_request_waits_for_it(fluent, monkeypatch):
    stepper, steps = pytest.importorskip("transduce.model.compiled.stepper").CompiledStepper, []
    step = stepper.step
    monkeypatch.setattr(stepper, "step", lambda *arguments: steps.append(arguments) or step(*arguments))
    load_models([str(fluent)], Metrics()).close()
    assert steps


class OfTwoDirections:
    """A translator of a model of two directions, without the model."""

    configs = (SimpleNamespace(linearisation=None, directions=[Direction("en", "de"), Direction("en", "fr")]),)

    def into(self, target, *, source_language, tag):
        return self


@pytest.mark.parametrize(
    ("languages", "served"), [(Direction(None, None), ["de", "fr"]), (Direction("en", "fr"), ["fr"])]
)
def test_of_several_directions_the_named_one_is_served(tmp_path, languages, served):
    directions = serve_model(tmp_path, OfTwoDirections(), None, languages)
    assert [(one.source, one.target) for one in directions] == [("en", target) for target in served]
    unknown = serve_model(tmp_path, OfTwoDirections(), None, Direction("de", "en"))
    with pytest.raises(ValueError, match="the model translates en:de, en:fr"):
        next(unknown)
