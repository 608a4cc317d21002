"""A local server with small archives in the layout of the real ones, and a catalogue of its addresses."""

import gzip
import hashlib
import html
import io
import json
import re
import tarfile
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from log_records import logged_lines
from transduce.fetch import Catalogue, fetch
from transduce.fetch.catalogue import CATALOGUE
from transduce.settings import validated

PAIRS = 3  # of each part with a published number, in the small corpora


class Server(ThreadingHTTPServer):
    """Serves `files` by path, each with the next of its `faults`, and records the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Any]] = defaultdict(list)
        self.requests: list[tuple[str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.halted, self.resume = threading.Event(), threading.Event()


class _Handler(BaseHTTPRequestHandler):
    """Faults: a status; `deaf` ignores ranges; `more` sends a longer file, without its length; ("cut", n) and
    ("halt", n) break off after n bytes; ("lie", n) adds n to the start of the range in the header; bytes replace the
    file."""

    server: Server

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers["Range"]))
        fault = self.server.faults[self.path].pop(0) if self.server.faults[self.path] else None
        if isinstance(fault, int) or self.path not in self.server.files:
            self.send_error(fault if isinstance(fault, int) else 404)
            return
        content = fault if isinstance(fault, bytes) else self.server.files[self.path]
        has_range = self.headers["Range"] and fault not in ("deaf", "more")
        start = int(re.findall(r"\d+", self.headers["Range"])[0]) if has_range else 0
        if start and start >= len(content):
            self.send_error(416)
            return
        kind, count = fault if isinstance(fault, tuple) else (None, 0)
        self.send_response(206 if start else 200)
        if fault == "more":
            content = b"<html>" + content[::-1] * 2
        else:
            self.send_header("Content-Length", str(len(content) - start))
        if start:
            begin = start + (count if kind == "lie" else 0)
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[start : start + count if kind in ("cut", "halt") else None])
        if kind == "halt":
            self.wfile.flush()
            self.server.halted.set()
            self.server.resume.wait(20)

    def log_message(self, *arguments: Any) -> None:
        pass


class World(NamedTuple):
    """A server, its catalogue, its archives and texts, and a folder to fetch to."""

    server: Server
    catalogue: Catalogue
    archives: dict[str, bytes]
    texts: dict[str, dict[str, list[str]]]  # corpus → file → lines
    out: Path

    def fetch(self, name: str, origin: str | None = None) -> tuple[dict[str, Any], list[str]]:
        """Fetches a corpus; returns the parts and the messages."""
        with logged_lines() as messages:
            parts = fetch(name, self.out, origin, self.catalogue)
        return parts, messages

    def holds(self, name: str) -> None:
        """Asserts that the folder of a corpus has the expected files and no temporary ones."""
        for file, lines in self.texts[name].items():
            assert (self.out / name / file).read_bytes() == "".join(f"{line}\n" for line in lines).encode()
        assert {path.name for path in (self.out / name).iterdir()} == {*self.texts[name], "manifest.json"}

    def paths(self, archive: str) -> list[str]:
        """Returns the paths of an archive on the server, one for each mirror."""
        return [mirror.removeprefix(self.server.url) for mirror in self.catalogue.archives[archive].mirrors]

    def with_mirrors(self, archive: str, *mirrors: str) -> "World":
        """Returns a world with other mirrors for an archive."""
        values = as_values(self.catalogue)
        values["archives"][archive]["mirrors"] = list(mirrors)
        return self._replace(catalogue=catalogue_of(values))

    def unchecked(self, archive: str) -> "World":
        """Returns a world whose catalogue has neither size nor checksum for an archive."""
        values = as_values(self.catalogue)
        values["archives"][archive] = {"mirrors": values["archives"][archive]["mirrors"]}
        return self._replace(catalogue=catalogue_of(values))

    def written(self) -> Path:
        """Writes the catalogue to a file."""
        path = self.out.parent / "catalogue.yaml"
        path.write_text(json.dumps(as_values(self.catalogue)), "utf-8")
        return path


def catalogue_of(values: dict[str, Any]) -> Catalogue:
    """Returns the catalogue of plain values."""
    return validated(Catalogue, values, place="the small catalogue")


def as_values(catalogue: Catalogue) -> dict[str, Any]:
    """Returns a catalogue as the values of its file: locations as strings, no null values."""

    def shorten(record: dict[str, Any]) -> Any:
        if record.keys() == {"archive", "member"}:
            return record["archive"] + (f":{record['member']}" if record["member"] else "")
        return {key: value for key, value in record.items() if value is not None}

    values: dict[str, Any] = json.loads(json.dumps(catalogue.as_dictionary()), object_hook=shorten)
    return values


def lines_of(section: str, language: str, cleaned: bool) -> list[str]:
    """Returns the lines of a section; one that will be cleaned gets a pair that will be dropped."""
    lines = [f'{section} {language} {number}: R&D at "5 < 6" – AT&T’s' for number in range(PAIRS)]
    return [*lines, *(["  " if language == "en" else "alone", f"{section} {language} last"] if cleaned else [])]


def as_member(name: str, lines: list[str]) -> bytes:
    """Returns a text as SGML, gzip or plain bytes, by the name of its member."""
    if name.endswith(".sgm"):
        segments = "".join(
            f'<seg id="{n}"> {html.escape(line, quote=n == 0)}\n</seg>\n' for n, line in enumerate(lines)
        )
        return f'<srcset setid="x" srclang="any">\n<DOC docid="a">\n<hl>\n{segments}</hl></DOC></srcset>\n'.encode()
    text = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(text) if name.endswith(".gz") else text


def tar(members: dict[str, bytes], mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def archive_of(name: str, members: dict[str | None, bytes]) -> bytes:
    """Returns an archive with these members, behind one that the catalogue does not use."""
    if None in members:
        return members[None]
    whole = {"README": b"unused", **{f"./{name}": content for name, content in members.items()}}
    return tar(whole, "w:gz" if name.endswith("gz") else "w")


def small(values: dict[str, Any]) -> tuple[dict[str, bytes], dict[str, dict[str, list[str]]]]:
    """Returns small archives in the catalogue's layout, and the lines of the files that `fetch` must write."""
    members: dict[str, dict[str | None, bytes]] = defaultdict(dict)
    texts: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in values["corpora"]}
    for corpus, part in ((name, part) for name, entry in values["corpora"].items() for part in entry["parts"]):
        for section in part["sections"]:
            for language, file in part["files"].items():
                lines = lines_of(section["name"], language, cleaned="pairs" not in part)
                texts[corpus][file] += [line for number, line in enumerate(lines) if number != PAIRS]
                for archive, _, member in (choice[language].partition(":") for choice in section["choices"]):
                    members[archive][member or None] = as_member(member or archive, lines)
    return {name: archive_of(name, content) for name, content in members.items()}, texts


@pytest.fixture(scope="session")
def layout() -> tuple[dict[str, Any], dict[str, bytes], dict[str, dict[str, list[str]]]]:
    """The real catalogue as plain values, small archives, and the lines of the fetched files."""
    values = json.loads(json.dumps(YAML(typ="safe", pure=True).load(CATALOGUE.read_text("utf-8"))))
    return values, *small(values)


@pytest.fixture
def world(layout, tmp_path, monkeypatch):
    """Two living mirrors for every archive; sizes and checksums where the real catalogue has them."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # the tests cut no power, and fsync is slow
    values, archives, texts = json.loads(json.dumps(layout[0])), layout[1], layout[2]
    server = Server()
    for name, archive in values["archives"].items():
        content = archives[name]
        archive["mirrors"] = [f"{server.url}/{mirror}/{name}" for mirror in ("one", "two")]
        server.files |= {f"/{mirror}/{name}": content for mirror in ("one", "two")}
        if "bytes" in archive:
            archive["bytes"] = len(content)
        if "checksum" in archive:
            kind = archive["checksum"].partition(":")[0]
            archive["checksum"] = f"{kind}:{hashlib.new(kind, content).hexdigest()}"
    for part in (part for corpus in values["corpora"].values() for part in corpus["parts"]):
        part |= {"pairs": PAIRS} if "pairs" in part else {"text_bytes": 1000}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield World(server, catalogue_of(values), archives, texts, tmp_path / "data")
    server.resume.set()
    server.shutdown()
    server.server_close()
    thread.join()
