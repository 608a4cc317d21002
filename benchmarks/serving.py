"""Load on a server: `python benchmarks/serving.py RUN TEXT --clients 200 --seconds 300`.

Starts `transduce serve RUN`, and lets clients send the lines of a text, one to five a request, to `/v1/translate`. One
request in ten is faulty, and the client of one request in twenty leaves before the answer. Every answer must be what
the translator of the command gives; a status other than the expected one is a finding. Prints times, rates and the
server's memory.

`--engine ctranslate2` puts the same clients before a plain loop around CTranslate2 (`ctranslate2_loop.py`). RUN is an
export then, and no request is faulty, because the loop does not check requests.
"""

import argparse
import asyncio
import collections
import random
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import httpx

from transduce import Translator

sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))
from local_server import LocalServer, started, started_server

FAULTY = 0.1
LEAVING = 0.05
MEMORY_SAMPLES = 20
FAULTS: list[tuple[str, dict[str, object], int]] = [
    ("/translate", {"q": "x", "source": "zz", "target": "de"}, 400),
    ("/translate", {"source": "en"}, 400),
    ("/translate", {"q": "x" * 500_000, "source": "en", "target": "de"}, 413),
    ("/v1/translate", {"text": "a\nb"}, 400),
    ("/v1/translate", {"text": "x", "beam": 99}, 400),
    ("/nowhere", {}, 404),
]


class Load(NamedTuple):
    """What the clients send, and what came of it."""

    url: str
    expected: dict[str, str]
    seconds: list[float]
    counts: dict[str, int]
    findings: list[str]
    faulty: float  # share of requests

    def count(self, name: str, number: int = 1) -> None:
        """Adds to a count."""
        self.counts[name] = self.counts.get(name, 0) + number


def main() -> None:
    """Runs one client at a time, then all of them, and prints both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("text", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engine", choices=["ctranslate2"], help="the server to measure, if not ours")
    arguments = parser.parse_args()
    lines = [line for line in arguments.text.read_text("utf-8").split("\n") if line.strip()][:500]
    if arguments.engine == "ctranslate2":
        from ctranslate2_loop import PlainEngine

        translations = PlainEngine(Path(arguments.run), arguments.threads).translate(lines)
        loop = Path(__file__).with_name("ctranslate2_loop.py")
        server = started([sys.executable, str(loop), arguments.run, "--threads", str(arguments.threads)])
    else:
        translations = Translator.load(arguments.run).translate(lines)
        options = ["--max-waiting", str(arguments.clients), "--threads", str(arguments.threads)]
        server = started_server(arguments.run, options=options)
    with server as running:
        findings: list[str] = []
        expected = dict(zip(lines, translations, strict=True))
        load = Load(running.url, expected, [], {}, findings, 0.0 if arguments.engine else FAULTY)
        asyncio.run(_measure(arguments, load, running))
        if not arguments.engine:
            asyncio.run(_stop(load, arguments.clients, running))
    print(f"{len(findings)} findings", *findings[:20], sep="\n")
    sys.exit(bool(findings))


async def _measure(arguments: argparse.Namespace, first: Load, server: LocalServer) -> None:
    """Measures one client, then all clients."""
    titles = ("clients", "requests", "refused", "faulty", "left", "sentences/s", "p50 ms", "p95 ms", "p99 ms")
    print(" ".join(f"{title:>11}" for title in titles))
    for clients, seconds in ((1, min(30.0, arguments.seconds)), (arguments.clients, arguments.seconds)):
        load = first._replace(seconds=[], counts={})
        start, memory = time.monotonic(), [server.megabytes]
        sampling = asyncio.create_task(_sample_memory(server, memory, seconds / MEMORY_SAMPLES))
        await asyncio.gather(*(_client(load, number, start + seconds) for number in range(clients)))
        sampling.cancel()
        _print(load, clients, time.monotonic() - start)
        print("memory in MB:", " ".join(f"{megabytes:.0f}" for megabytes in memory), flush=True)


async def _sample_memory(server: LocalServer, memory: list[float], pause: float) -> None:
    """Adds to `memory` until it is cancelled."""
    while True:
        await asyncio.sleep(pause)
        memory.append(server.megabytes)


async def _stop(first: Load, clients: int, server: LocalServer) -> None:
    """Stops the server under load, and counts what was answered."""
    load = first._replace(seconds=[], counts={})
    answers = [asyncio.create_task(_send(load, random.Random(number))) for number in range(clients)]
    async with httpx.AsyncClient(base_url=load.url, timeout=60, verify=False) as client:
        while "transduce_accepted_requests 0.0" in (await client.get("/metrics")).text:
            await asyncio.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    results = await asyncio.gather(*answers, return_exceptions=True)
    errors = collections.Counter(type(error).__name__ for error in results if error is not None)
    code = await asyncio.to_thread(server.process.wait)
    print(f"SIGTERM: exit code {code}; of {len(answers)} requests {len(answers) - errors.total()} were answered")
    print(f"errors of connections that were not accepted: {dict(errors)}")
    load.findings.extend(f"log: {line}" for line in server.faults())
    if code != 143:
        load.findings.append(f"exit code {code}")


async def _client(load: Load, number: int, end: float) -> None:
    """Sends one request after another until the end."""
    rng = random.Random(number)
    while time.monotonic() < end:
        try:
            await _send(load, rng)
        except httpx.HTTPError as error:
            load.findings.append(f"a request was lost: {error!r}")


async def _send(load: Load, rng: random.Random) -> None:
    """Sends a request on a connection of its own, and checks the answer."""
    # Without `verify=False` each connection would make a TLS context, for longer than the server takes to answer.
    async with httpx.AsyncClient(base_url=load.url, timeout=60, verify=False) as client:
        chance = rng.random()
        if chance < load.faulty:
            path, values, status = rng.choice(FAULTS)
            answer = await client.post(path, json=values)
            load.count("faulty")
            # A server that is full may say so before it looks at the values.
            if answer.status_code not in (status, 503) or "error" not in answer.json():
                load.findings.append(f"{path} {str(values)[:80]}: status {answer.status_code}, not {status}")
            return
        lines = rng.sample(sorted(load.expected), rng.randint(1, 5))
        if chance < load.faulty + LEAVING:
            load.count("left")
            try:
                await client.post("/v1/translate", json={"text": lines * 10}, timeout=rng.uniform(0.01, 0.2))
            except httpx.TimeoutException:
                return
            return
        start = time.monotonic()
        answer = await client.post("/v1/translate", json={"text": lines})
        load.seconds.append(time.monotonic() - start)
        if answer.status_code == 503:
            load.count("refused")
            return
        if answer.status_code != 200:
            load.findings.append(f"status {answer.status_code}: {answer.text[:100]}")
            return
        load.count("sentences", len(lines))
        for line, record in zip(lines, answer.json()["lines"], strict=True):
            if record["translations"][0]["text"] != load.expected[line]:
                load.findings.append(f"{line!r}: {record['translations'][0]['text']!r}, not {load.expected[line]!r}")


def _print(load: Load, clients: int, seconds: float) -> None:
    """Prints a row of the table."""
    cuts = statistics.quantiles([1000 * second for second in load.seconds], n=100)
    rate = load.counts.get("sentences", 0) / seconds
    cells = (
        clients,
        len(load.seconds),
        *(load.counts.get(name, 0) for name in ("refused", "faulty", "left")),
        f"{rate:.1f}",
        *(f"{cuts[place]:.0f}" for place in (49, 94, 98)),
    )
    print(" ".join(f"{cell:>11}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
