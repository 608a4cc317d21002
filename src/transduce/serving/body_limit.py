"""Bounds the bodies of requests: their bytes, and the time in which they arrive."""

import asyncio
import time
from collections.abc import Mapping

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BodyLimit"]

BODY_SECONDS = 20.0


class BodyLimit:
    """An ASGI application around another, which reads at most `max_bytes` of each body.

    `exceptions` has paths with another limit.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, exceptions: Mapping[str, int]) -> None:
        self._application, self._max_bytes, self._exceptions = app, max_bytes, exceptions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it: status 408, 413 or 415."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers, max_bytes = dict(scope["headers"]), self._exceptions.get(scope["path"], self._max_bytes)
        length = headers.get(b"content-length", b"0")
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            await _refuse(415, "Send the body without Content-Encoding", scope, receive, send)
        elif length.isdigit() and int(length[:20]) > max_bytes:
            await _refuse(413, _too_large(max_bytes), scope, receive, send)
        else:
            await self._application(scope, _bounded(receive, max_bytes), send)


def _too_large(max_bytes: int) -> str:
    return f"Invalid request: a body has at most {max_bytes:,} bytes"


def _bounded(receive: Receive, max_bytes: int) -> Receive:
    """Returns `receive` with errors of status 413 and 408 while the body arrives."""
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
            raise HTTPException(413, _too_large(max_bytes))
        return message

    return receive_bounded


async def _refuse(status: int, message: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the body, and ends the connection."""
    await JSONResponse({"error": message}, status, {"Connection": "close"})(scope, receive, send)
