"""Hostile clients beside a good one: `python stress/hostile_clients.py RUN`.

Starts `transduce serve RUN`. Each attack opens connections and sends what no client should; a good client asks for a
translation again and again meanwhile. Prints what the server did with the hostile connections, the times of the good
client and the memory of the server. A good request without its answer, a hostile one that is answered with another
status than 4xx or 503, a connection that the server leaves open, and a traceback in the log are findings.
"""

import argparse
import asyncio
import collections
import contextlib
import io
import json
import statistics
import time
import zipfile
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import httpx
from local_server import LocalServer, started_server

OPEN_SECONDS = 100.0  # the server must have ended a hostile connection after this time
MOST_MEGABYTES = 400  # that all attacks together may add
JSON = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
FORM = JSON.replace("json", "x-www-form-urlencoded")
FILE = "POST /translate_file HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
NOWHERE = "POST /x HTTP/1.1\r\nHost: x\r\n"
PAGES = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 5000


class Attack(NamedTuple):
    """What each of `connections` sends: `first` at once, then `drops`, one in a second, and then nothing more.

    `reads` is whether the client reads what the server sends.
    """

    name: str
    first: bytes
    connections: int = 1
    drops: bytes = b""
    reads: bool = True
    statuses: frozenset[str] = frozenset()  # that are expected beside 4xx, 503 and an ended connection


def post(body: bytes, head: str = JSON, length: int | None = None) -> bytes:
    """Returns a request with a body, whose length is given otherwise where `length` says so."""
    return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


def document(content: bytes) -> bytes:
    """Returns a request that sends a DOCX file."""
    fields = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("source", "en"), ("target", "de"))
    )
    file = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.docx"\r\n\r\n'
    body = (fields + file).encode() + content + b"\r\n--b--\r\n"
    return post(body, FILE)


def zip_bomb(megabytes: int) -> bytes:
    """Returns a DOCX file with so much content, nearly all of it zeros."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("word/document.xml", "w") as part:
            for _ in range(megabytes):
                part.write(bytes(1 << 20))
    return packed.getvalue()


def attacks() -> Iterator[Attack]:
    """Yields all attacks."""
    answered = frozenset({"200"})
    good = json.dumps({"q": "A dog runs.", "source": "en", "target": "de"}).encode()
    many = json.dumps({"text": ["A man sleeps."] * 20, "n_best": 4, "stream": True}).encode()
    stream = post(many, JSON.replace("/translate", "/v1/translate"))
    chunked = f"{JSON}Transfer-Encoding: chunked\r\n\r\n"
    yield Attack("1,000 silent connections", b"", 1000)
    yield Attack("1,100 silent connections", b"", 1100)
    yield Attack("1,000 heads, a byte a second", JSON.encode(), 1000, b"X-A: " + b"a" * 90)
    yield Attack("1,000 bodies, a byte a second", post(b"{", length=9999), 1000, b" " * 90)
    yield Attack("200 bodies that nobody asked for", post(b"", NOWHERE, 99999), 200, b" " * 90)
    yield Attack("20 streams that are not read", stream, 20, reads=False, statuses=answered)
    yield Attack("pages that are not read", PAGES, 20, reads=False, statuses=answered)
    yield Attack("body of 50 MB", post(b"a" * 50_000_000))
    yield Attack("body of 50 MB in chunks", chunked.encode() + (b"10000\r\n" + b"a" * 65536 + b"\r\n") * 763)
    yield Attack("document of 50 MB", document(b"a" * 50_000_000))
    yield Attack("gzip bomb", post(zlib.compress(bytes(50_000_000)), JSON + "Content-Encoding: gzip\r\n"))
    yield Attack("DOCX bomb of 1 GB", document(zip_bomb(1000)), 8)
    yield Attack("lists in lists", post(b'{"q":' + b"[" * 200_000), 20)
    yield Attack("objects in objects", post(b'{"q":' * 30_000), 20)
    yield Attack("number of 200,000 digits", post(b'{"q": "a", "alternatives": ' + b"9" * 200_000 + b"}"), 20)
    yield Attack("number in a form", post(b"q=a&source=en&target=de&alternatives=" + b"9" * 5000, FORM), 5)
    yield Attack("100,000 fields", post(b"a=1&" * 50_000, FORM), 5)
    yield Attack("no UTF-8", post(b'{"q": "\xff\xfe", "source": "en", "target": "de"}'), 5)
    yield Attack("length too small", post(good, length=5), 5)
    yield Attack("length too large", post(good, length=len(good) + 5), 5)
    yield Attack("negative length", post(good, length=-1), 5)
    yield Attack("two lengths", post(good, JSON + "Content-Length: 3\r\n"), 5)
    smuggled = b"0\r\n\r\nGET /ready HTTP/1.1\r\n\r\n"
    yield Attack("length and chunks", post(smuggled, JSON + "Transfer-Encoding: chunked\r\n"), 5)
    yield Attack("chunks that lie", chunked.encode() + b"ffffffffffffffff\r\na", 5)
    yield Attack("a head of 1 MB", JSON.encode() + b"X-A: " + b"a" * 1_000_000, 20)
    yield Attack("20,000 lines of a head", JSON.encode() + b"X-A: a\r\n" * 20_000, 20)
    yield Attack("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 20)
    yield Attack("HTTP/1.0", post(good).replace(b"HTTP/1.1", b"HTTP/1.0"), 5, statuses=answered)
    yield Attack("1,000 pipelined requests", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 1000, 5, statuses=answered)


async def attacked(attack: Attack, port: int) -> str:
    """Runs one connection of an attack; returns the first status, "ended" without one, "open" where it stays open."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, limit=1 << 16), 30)
    except (OSError, TimeoutError):
        return "ended"
    received = bytearray()
    with contextlib.closing(writer):
        sending = asyncio.create_task(_send(attack, writer))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                if not attack.reads:
                    await asyncio.sleep(OPEN_SECONDS - 20)
                await _receive(reader, received)
        except TimeoutError:
            return "open"
        finally:
            sending.cancel()
    return received[9:12].decode(errors="replace") or "ended"


async def _send(attack: Attack, writer: asyncio.StreamWriter) -> None:
    """Sends what the attack sends."""
    writer.write(attack.first)
    with contextlib.suppress(OSError):
        await writer.drain()
        for byte in attack.drops:
            await asyncio.sleep(1)
            writer.write(bytes([byte]))
            await writer.drain()


async def _receive(reader: asyncio.StreamReader, received: bytearray) -> None:
    """Reads until the server ends the connection; keeps the beginning."""
    with contextlib.suppress(OSError):
        while part := await reader.read(1 << 16):
            received.extend(part[: 100 - len(received)])


async def good_client(url: str, seconds: list[float], findings: list[str]) -> None:
    """Asks for a translation again and again until it is cancelled, each time on a new connection."""
    request = {"q": "A dog runs.", "source": "en", "target": "de"}
    while True:
        start = time.monotonic()
        try:
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                answer = await client.post("/translate", json=request)
            if answer.status_code != 200:
                findings.append(f"the good client gets status {answer.status_code}")
        except httpx.HTTPError as error:
            findings.append(f"the good client gets {error!r}")
        seconds.append(time.monotonic() - start)
        await asyncio.sleep(0.1)


async def run_attack(attack: Attack, server: LocalServer, findings: list[str]) -> None:
    """Runs an attack beside the good client, and prints a row of the table."""
    seconds: list[float] = []
    problems: list[str] = []
    good = asyncio.create_task(good_client(server.url, seconds, problems))
    await asyncio.sleep(1)
    start = time.monotonic()
    outcomes = collections.Counter(
        await asyncio.gather(*(attacked(attack, server.port) for _ in range(attack.connections)))
    )
    duration = time.monotonic() - start
    good.cancel()
    allowed = {"ended", "503", *attack.statuses}
    wrong = {status: count for status, count in outcomes.items() if status not in allowed and status[0] != "4"}
    problems += [f"{count} connections: {status}" for status, count in wrong.items()]
    findings.extend(f"{attack.name}: {problem}" for problem in problems)
    cuts = [1000 * cut for cut in statistics.quantiles(seconds, n=20)] if len(seconds) > 1 else [0.0] * 19
    said = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    cells = (attack.name, said, f"{duration:.0f}", f"{cuts[9]:.0f}", f"{1000 * max(seconds, default=0):.0f}")
    print("|", " | ".join(cells), f"| {server.megabytes:.0f} |", flush=True)


def main() -> None:
    """Runs all attacks, and prints findings."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--only", default="", help="part of the name of an attack")
    arguments = parser.parse_args()
    findings: list[str] = []
    with started_server(arguments.run, options=["--threads", "1"]) as server:
        print("| attack | its connections | seconds | good client p50 ms | most ms | memory MB |")
        print("|---|---|---|---|---|---|")
        quiet = Attack("a good request", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", statuses=frozenset({"200"}))
        before = 0.0
        for attack in [quiet, *(attack for attack in attacks() if arguments.only in attack.name)]:
            asyncio.run(run_attack(attack, server, findings))
            before = before or server.megabytes
        if (added := server.megabytes - before) > MOST_MEGABYTES:
            findings.append(f"the server has {added:.0f} MB more than before")
        findings.extend(f"log: {line.rstrip()}" for line in server.faults())
    print(f"{len(findings)} findings", *findings[:40], sep="\n")
    raise SystemExit(bool(findings))


if __name__ == "__main__":
    main()
