"""Limits the sizes of texts and bodies, the time in which a body must arrive and the request rate; checks API keys."""

import asyncio
import hmac
import ipaddress
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.storage.regular_files import read_regular_file


class Limits(NamedTuple):
    """The limits of a server. A client that exceeds a limit gets an error, and other clients are not affected."""

    characters: int = 10_000  # in all texts of a request
    texts: int = 100  # per request
    requests_per_minute: int | None = 120  # per client; None: no limit
    accepted: int = 64  # requests that are waiting or being translated
    seconds: float = 30.0  # time in which an accepted request must be answered
    document_characters: int = 100_000  # in the text of a document
    document_bytes: int = 8 << 20

    @property
    def body_bytes(self) -> int:
        """Returns the largest size of a request without a document, in bytes.

        A character may take up to 12 bytes, because JSON allows it to be escaped.
        """
        return 12 * self.characters + 1024 * self.texts + 4096

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raises an HTTP error with status 400 for too many texts or characters, and for an unpaired surrogate."""
        if len(texts) > self.texts:
            raise HTTPException(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({self.texts})")
        characters = sum(map(len, texts))
        if characters > self.characters:
            message = f"Invalid request: request ({characters}) exceeds text limit ({self.characters})"
            raise HTTPException(400, message)
        if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
            raise HTTPException(400, "Invalid request: a text has half a surrogate pair, such as \\ud800")


def address_of(request: Request) -> str:
    """Returns the IP address of a client, or the 64-bit network of an IPv6 address.

    A single client may have all addresses of an IPv6 network, so that limits must apply to the whole network.
    """
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((address.packed, 64), strict=False))


class ApiKeys:
    """The API keys that a server accepts; without any keys, it accepts every client."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._keys = [key.encode() for key in keys]

    @classmethod
    def read(cls, path: Path) -> "ApiKeys":
        """Reads a file with one key per line, in which lines that begin with "#" are comments.

        Raises ValueError if the file contains no key or is not UTF-8.
        """
        try:
            lines = map(str.strip, read_regular_file(path).decode("utf-8-sig").split("\n"))
        except FileNotFoundError:
            raise ValueError(f"--keys: there is no file {path}; write one with a secret key on each line") from None
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8; convert it to UTF-8") from None
        keys = [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise ValueError(f"{path} has no key: write one a line, or leave out --keys")
        return cls(keys)

    @property
    def are_required(self) -> bool:
        """Returns True if clients must send a key."""
        return bool(self._keys)

    def check(self, key: str | None) -> None:
        """Raises an HTTP error with status 403 if keys are required and `key` is missing or wrong."""
        if not self._keys:
            return
        if key is None:
            raise HTTPException(403, "Please contact the server operator to get an API key")
        matches = [hmac.compare_digest(accepted, key.encode(errors="replace")) for accepted in self._keys]
        if not any(matches):
            raise HTTPException(403, "Invalid API key")


BODY_SECONDS = 20.0  # time in which a body must arrive


class BodyLimit:
    """ASGI middleware that limits the size of request bodies and the time in which they must arrive.

    A body may have `max_bytes` at most, unless `exceptions` maps the path of the request to another limit.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, exceptions: Mapping[str, int]) -> None:
        self._application, self._max_bytes, self._exceptions = app, max_bytes, exceptions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or rejects it because of its body.

        The status is 408 if the body does not arrive in time, 413 if it is too large, and 415 if it is compressed.
        """
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers, max_bytes = dict(scope["headers"]), self._exceptions.get(scope["path"], self._max_bytes)
        length = headers.get(b"content-length", b"0")
        too_large = f"Invalid request: a body has at most {max_bytes:,} bytes"

        async def refuse(status: int, message: str) -> None:
            """Answers without reading the body, and closes the connection."""
            await JSONResponse({"error": message}, status, {"Connection": "close"})(scope, receive, send)

        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            await refuse(415, "Send the body without Content-Encoding")
        elif length.isdigit() and int(length[:20]) > max_bytes:
            await refuse(413, too_large)
        else:
            received, is_whole, deadline = 0, False, time.monotonic() + BODY_SECONDS

            async def receive_bounded() -> Message:
                nonlocal received, is_whole
                if is_whole:
                    return await receive()
                try:
                    async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                        message = await receive()
                except TimeoutError:
                    raise HTTPException(408, "The body of the request did not arrive in time") from None
                received += len(message.get("body", b""))
                is_whole = not message.get("more_body", False)
                if received > max_bytes:
                    raise HTTPException(413, too_large)
                return message

            await self._application(scope, receive_bounded, send)
