"""Random changes of bytes and of JSON values, and commands run in a process under limits."""

import gzip
import random
from pathlib import Path
from typing import Any

from forked import Limits, run_forked

LIMITS = Limits(seconds=300, processor_seconds=30, memory=4 << 30)

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
    """A command did what it must not do."""


def mutate_bytes(content: bytes, rng: random.Random, donors: list[bytes]) -> bytes:
    """Returns `content` after one to four changes; some of them take bytes from a donor."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        start, stop = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        if rng.random() < 0.7:
            stop = min(stop, start + rng.randint(0, 20))
        before, inside, after = content[:start], content[start:stop], content[stop:]
        match rng.randrange(8):
            case 0 if after:
                content = before + inside + bytes([after[0] ^ (1 << rng.randrange(8))]) + after[1:]
            case 1:
                content = before
            case 2:
                content = before + after
            case 3:
                content = before + inside * rng.choice((2, 2, 3, 50)) + after
            case 4:
                content = before + rng.choice(donors)[start:] + after
            case 5:
                content = inside + before + after
            case _:
                content = before + rng.choice(WORDS) + (inside if rng.random() < 0.5 else b"") + after
    return content


def mutate_values(values: Any, rng: random.Random) -> Any:
    """Returns `values` with one value at any depth replaced, removed, renamed or duplicated."""
    has_values = isinstance(values, dict | list) and bool(values)
    if not has_values or rng.random() < 0.1:
        return rng.choice(VALUES)
    if isinstance(values, list):
        place = rng.randrange(len(values))
        return [*values[:place], mutate_values(values[place], rng), *values[place + 1 :]]
    key = rng.choice(list(values))
    match rng.randrange(8):
        case 0:
            return {name: value for name, value in values.items() if name != key}
        case 1:
            return {**values, rng.choice(("x", "kind", "", "3", "\ud800", key + "s")): values[key]}
        case _:
            return {**values, key: mutate_values(values[key], rng)}


def gzip_and_mutate(content: bytes, rng: random.Random) -> bytes:
    """Returns `content` compressed and then changed."""
    compressed = gzip.compress(content)
    return mutate_bytes(compressed, rng, [compressed, content])


def run_command(folder: Path, *arguments: object, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Runs a command in a forked process, and returns its exit code, output and messages.

    Raises FindingError for an exit code other than 0 and 2, a signal, a traceback, and code 2 without a message.
    """
    status, output, messages, *_ = run_forked(folder, arguments, LIMITS, stdin)
    report = f"{' '.join(map(str, arguments))}\n{messages[-2000:]}"
    if status < 0:
        raise FindingError(f"killed by signal {-status}: {report}")
    has_message = "transduce: " in messages or "Usage" in messages
    if status not in (0, 2) or "Traceback" in messages or (status == 2 and not has_message):
        raise FindingError(f"code {status}: {report}")
    return status, output, messages
