"""Load on a server: `python benchmarks/serving.py RUN TEXT --clients 200 --seconds 300`.

Starts `transduce serve RUN`, and lets clients send the lines of a text, one to five a request, to `/v1/translate`. One
request in ten is faulty, and one client in twenty leaves before its answer. Every answer must be what the translator of
the command gives; a status other than the expected one is a finding. Prints times, rates and the server's memory.
"""

import argparse
import asyncio
import collections
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import httpx

from transduce import Translator

FAULTY = 0.1
LEAVING = 0.05
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
    source: str
    target: str
    expected: dict[str, str]
    seconds: list[float]
    counts: dict[str, int]
    findings: list[str]

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
    arguments = parser.parse_args()
    lines = [line for line in arguments.text.read_text("utf-8").split("\n") if line.strip()][:500]
    translator = Translator.load(arguments.run)
    config = translator.configs[0]
    translations = dict(zip(lines, (best.text for best in translator.translate(lines)), strict=True))
    options = [
        "--requests-per-minute",
        "0",
        "--max-waiting",
        str(arguments.clients),
        "--threads",
        str(arguments.threads),
    ]
    command = [sys.executable, "-m", "transduce", "serve", arguments.run, "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = re.findall(r"http://\S+", server.stderr.readline())[0]
        log = asyncio.to_thread(server.stderr.read)
        try:
            asyncio.run(
                _measure(arguments, url, (config.source_language, config.target_language), translations, log, server)
            )
        finally:
            server.kill()


async def _measure(arguments, url, languages, expected, log, server) -> None:
    """Measures one client, all clients, and a stop under load."""
    reading = asyncio.create_task(log)
    titles = ("clients", "requests", "refused", "sentences/s", "p50 ms", "p95 ms", "p99 ms", "memory MB")
    print(" ".join(f"{title:>11}" for title in titles))
    findings: list[str] = []
    for clients, seconds in ((1, min(30.0, arguments.seconds)), (arguments.clients, arguments.seconds)):
        load = Load(url, *languages, expected, [], {}, findings)
        start = time.monotonic()
        await asyncio.gather(*(_client(load, number, start + seconds) for number in range(clients)))
        _print(load, clients, time.monotonic() - start, _memory(server.pid))
    stopped = Load(url, *languages, expected, [], {}, findings)
    answers = [asyncio.create_task(_send(stopped, random.Random(number))) for number in range(arguments.clients)]
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        while "transduce_accepted_requests 0.0" in (await client.get("/metrics")).text:
            await asyncio.sleep(0.01)
    server.send_signal(signal.SIGTERM)
    results = await asyncio.gather(*answers, return_exceptions=True)
    errors = collections.Counter(type(error).__name__ for error in results if error is not None)
    code = await asyncio.to_thread(server.wait)
    await reading
    answered = len(stopped.seconds) + stopped.counts.get("faulty", 0) + stopped.counts.get("left", 0) - errors.total()
    print(f"SIGTERM: exit code {code}; of {len(answers)} requests {answered} were answered, others not accepted")
    print(f"errors of connections that were not accepted: {dict(errors)}")
    print(f"{len(findings)} findings", *findings[:20], sep="\n")
    sys.exit(1 if findings or code != 143 else 0)


async def _client(load: Load, number: int, end: float) -> None:
    """Sends one request after another until the end."""
    rng = random.Random(number)
    while time.monotonic() < end:
        await _send(load, rng)


async def _send(load: Load, rng: random.Random) -> None:
    """Sends a request on a connection of its own, and checks the answer."""
    async with httpx.AsyncClient(base_url=load.url, timeout=60) as client:
        chance = rng.random()
        if chance < FAULTY:
            path, values, status = rng.choice(FAULTS)
            answer = await client.post(path, json=values)
            load.count("faulty")
            if answer.status_code != status or "error" not in answer.json():
                load.findings.append(f"{path} {str(values)[:80]}: status {answer.status_code}, not {status}")
            return
        lines = rng.sample(sorted(load.expected), rng.randint(1, 5))
        if chance < FAULTY + LEAVING:
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


def _print(load: Load, clients: int, seconds: float, memory: float) -> None:
    """Prints a row of the table."""
    cuts = statistics.quantiles([1000 * second for second in load.seconds], n=100)
    rate = load.counts.get("sentences", 0) / seconds
    cells = (
        clients,
        len(load.seconds),
        load.counts.get("refused", 0),
        f"{rate:.1f}",
        *(f"{cuts[place]:.0f}" for place in (49, 94, 98)),
        f"{memory:.0f}",
    )
    print(" ".join(f"{cell:>11}" for cell in cells), flush=True)


def _memory(process: int) -> float:
    """Returns the resident memory of a process in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


if __name__ == "__main__":
    main()
