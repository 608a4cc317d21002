"""`transduce serve` as a process, for benchmarks of the server."""

import contextlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class LocalServer(NamedTuple):
    """A process that serves at `url`; its log is read as it comes, and its last lines are kept."""

    process: subprocess.Popen[str]
    url: str
    log: list[str]

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self.url.rpartition(":")[2])

    @property
    def megabytes(self) -> float:
        """The resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def faults(self) -> list[str]:
        """Returns the last lines of the log that are no records of requests."""
        return [line for line in self.log if not line.startswith("{")]


@contextlib.contextmanager
def started_server(*runs: str, options: Sequence[str] = ()) -> Iterator[LocalServer]:
    """Starts `transduce serve` without a limit on the rate; ends it at the end of the context."""
    options = ("--requests-per-minute", "0", "--port", "0", *options)
    with started([sys.executable, "-m", "transduce", "serve", *runs, *options]) as server:
        yield server


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[LocalServer]:
    """Starts a server that writes its address into its log; ends it at the end of the context."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        while not (urls := re.findall(r"http://\S+", "".join(lines[-1:]))):  # the first may say what is compiled
            lines.append(process.stderr.readline())
            if not lines[-1]:
                raise SystemExit("".join(lines))
        server = LocalServer(process, urls[0], [])
        reading = threading.Thread(target=_keep_last, args=(process.stderr, server.log))
        reading.start()
        try:
            yield server
        finally:
            process.send_signal(signal.SIGKILL)
            reading.join()


def _keep_last(lines: Iterator[str], log: list[str], most: int = 10_000) -> None:
    """Reads lines until their end, and keeps the last ones."""
    for line in lines:
        log.append(line)
        del log[:-most]
