"""What a server accepts from its clients: sizes of texts and bodies, the time in which a body arrives, rates, keys."""

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
    """Limits of a server; a client that exceeds one gets an error, and other clients are not affected."""

    characters: int = 10_000  # in all texts of a request
    texts: int = 100  # per request
    requests_per_minute: int | None = 120  # per client
    accepted: int = 64  # requests that wait or are being translated
    seconds: float = 30.0  # until an accepted request is answered
    document_characters: int = 100_000  # in the text of a document
    document_bytes: int = 8 << 20

    @property
    def body_bytes(self) -> int:
        """The largest size of a request without a document, in bytes; with escapes a character takes up to 12 bytes."""
        return 12 * self.characters + 1024 * self.texts + 4096

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raises an HTTP error with status 400 for too many texts or characters, and for half a surrogate pair."""
        if len(texts) > self.texts:
            raise HTTPException(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({self.texts})")
        characters = sum(map(len, texts))
        if characters > self.characters:
            message = f"Invalid request: request ({characters}) exceeds text limit ({self.characters})"
            raise HTTPException(400, message)
        if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
            raise HTTPException(400, "Invalid request: a text has half a surrogate pair, such as \\ud800")


def address_of(request: Request) -> str:
    """Address of a client; for IPv6 its 64-bit network, because one client may have all addresses of a network."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((address.packed, 64), strict=False))


class ApiKeys:
    """The keys that clients must send; there are none if the server is open."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._keys = [key.encode() for key in keys]

    @classmethod
    def read(cls, path: Path) -> "ApiKeys":
        """Reads a file with one key per line; lines that begin with "#" are comments.

        Raises ValueError if it has no key, or is not UTF-8.
        """
        try:
            lines = map(str.strip, read_regular_file(path).decode("utf-8-sig").split("\n"))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8; convert it to UTF-8") from None
        keys = [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise ValueError(f"{path} has no key: write one a line, or leave out --keys")
        return cls(keys)

    @property
    def are_required(self) -> bool:
        """Whether clients need a key."""
        return bool(self._keys)

    def check(self, key: str | None) -> None:
        """Raises an HTTP error with status 403 unless `key` is in the file or no key is required."""
        if not self._keys:
            return
        if key is None:
            raise HTTPException(403, "Please contact the server operator to get an API key")
        matches = [hmac.compare_digest(accepted, key.encode(errors="replace")) for accepted in self._keys]
        if not any(matches):
            raise HTTPException(403, "Invalid API key")


BODY_SECONDS = 20.0


class BodyLimit:
    """Wraps an ASGI application, and reads at most `max_bytes` of each body.

    `exceptions` maps paths to other limits.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, exceptions: Mapping[str, int]) -> None:
        self._application, self._max_bytes, self._exceptions = app, max_bytes, exceptions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it with status 408, 413 or 415."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers, max_bytes = dict(scope["headers"]), self._exceptions.get(scope["path"], self._max_bytes)
        length = headers.get(b"content-length", b"0")
        too_large = f"Invalid request: a body has at most {max_bytes:,} bytes"

        async def refuse(status: int, message: str) -> None:
            """Answers without reading the body, and ends the connection."""
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
