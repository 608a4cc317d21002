"""Damage, and verbs that are given it: bytes and values changed at random, commands run under limits."""

import contextlib
import gzip
import importlib
import os
import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from transduce.commands import main as transduce

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
# Before a verb has a process of its own, which would wait for them.
for room in ("describe", "measure", "run", "translator"):
    importlib.import_module(f"transduce.{room}")

PROCESSOR_SECONDS, SECONDS, MEMORY = 30, 300, 4 << 30  # what one verb may take, of time at work and of any time

WORDS = (
    *(b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n", b"\n\n", b"\t", b" " * 70),
    *("\u0085 \u2028 \u202e \u0301 \ufeff ⟨s⟩ ‿ ▁ 👩‍👩‍👧 字".encode().split()),
    *b"{ } [ ] \" ' : , | ~ *a !!set %YAML ${HOME} ${} ${NONE}".split(),
    *(b"- ", b"? ", b"&a ", b"<<: *a", b"%YAML 1.1", b"kind: bpe", b"2001-12-14", b"\\ud800", b"\\u0000"),
    *(b"null", b"true", b".nan", b"-.inf", b"1e999", b"-1", b"0", b"0o17", b"1_0", b"9" * 25, b"9" * 5000),
    *(b"[" * 99, b"x" * 70_000),
)
VALUES = (None, True, -1, 0, 3, 10**9, 2**53, 10**30, 1.5, float("nan"), float("inf"), "", "x", "\0", "\ud800", "../x")
VALUES += ([], [[]], {}, {"kind": "x"}, {"": None}, ["x"] * 40)


class FindingError(Exception):
    """A verb did what it must not do."""


def damaged(content: bytes, drawn: random.Random, others: list[bytes]) -> bytes:
    """`content` with one to four things done to it."""
    for _ in range(drawn.choice((1, 1, 1, 2, 4))):
        start, stop = sorted(drawn.randrange(len(content) + 1) for _ in range(2))
        if drawn.random() < 0.7:
            stop = min(stop, start + drawn.randint(0, 20))
        before, inside, after = content[:start], content[start:stop], content[stop:]
        match drawn.randrange(8):
            case 0 if after:
                content = before + inside + bytes([after[0] ^ (1 << drawn.randrange(8))]) + after[1:]
            case 1:
                content = before
            case 2:
                content = before + after
            case 3:
                content = before + inside * drawn.choice((2, 2, 3, 50)) + after
            case 4:
                content = before + drawn.choice(others)[start:] + after
            case 5:
                content = inside + before + after
            case _:
                content = before + drawn.choice(WORDS) + (inside if drawn.random() < 0.5 else b"") + after
    return content


def replaced(values: Any, drawn: random.Random) -> Any:
    """`values` with one value somewhere replaced, taken out, renamed or given twice."""
    inside = isinstance(values, dict | list) and bool(values)
    if not inside or drawn.random() < 0.1:
        return drawn.choice(VALUES)
    if isinstance(values, list):
        place = drawn.randrange(len(values))
        return [*values[:place], replaced(values[place], drawn), *values[place + 1 :]]
    key = drawn.choice(list(values))
    match drawn.randrange(8):
        case 0:
            return {name: value for name, value in values.items() if name != key}
        case 1:
            return {**values, drawn.choice(("x", "kind", "", "3", "\ud800", key + "s")): values[key]}
        case _:
            return {**values, key: replaced(values[key], drawn)}


def gzipped(content: bytes, drawn: random.Random) -> bytes:
    """Compressed, and damaged after that."""
    packed = gzip.compress(content)
    return damaged(packed, drawn, [packed, content])


def ran(folder: Path, *arguments: object, given: bytes = b"") -> tuple[int, bytes, str]:
    """Exit code, output and messages of a verb in a process of its own, which has to end as verbs do."""
    (folder / "stdin").write_bytes(given)
    for name in ("stdout", "stderr"):
        (folder / name).unlink(missing_ok=True)
    process = os.fork()
    if not process:
        _verb(folder, [str(argument) for argument in arguments])
    status = _ended(process)
    out, said = (folder / "stdout").read_bytes(), (folder / "stderr").read_text("utf-8", "replace")
    told = f"{' '.join(map(str, arguments))}\n{said[-2000:]}"
    if status < 0:
        raise FindingError(f"killed by signal {-status}: {told}")
    if (
        status not in (0, 2)
        or "Traceback" in said
        or (status == 2 and "transduce: " not in said and "Usage" not in said)
    ):
        raise FindingError(f"code {status}: {told}")
    return status, out, said


def _verb(folder: Path, arguments: list[str]) -> None:
    """What the process does."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(os.open(folder / name, os.O_RDWR | os.O_CREAT), descriptor)
    limit = MEMORY + int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = 1
    try:
        transduce(arguments)
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(process: int) -> int:
    """The exit code of a process, or minus the signal that ended it."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return -signal.SIGALRM
