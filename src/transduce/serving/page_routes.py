"""Serves the web page at `/`, whose files are part of the package, with the security policies for the browser."""

import hashlib
from importlib import resources
from pathlib import PurePosixPath
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
# The page runs only its own scripts, and connects only to this server.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
# A picture may run the scripts that it contains, but may not connect to any host.
PICTURE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)
FRAME_POLICY = f"{PICTURE_POLICY}; frame-ancestors 'self'"  # for the frame in which the page shows a picture


class PageFile(NamedTuple):
    """A file of the web page, with the values of its HTTP headers."""

    content: bytes
    kind: str
    tag: str  # the ETag, which changes with the content
    policy: str

    def answer(self, request: Request) -> Response:
        """Returns the file, or status 304 if the browser already has it."""
        headers = {
            "Content-Security-Policy": self.policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",  # the browser asks each time, because a new version changes the file
            "ETag": self.tag,
        }
        if request.headers.get("if-none-match", "").removeprefix("W/") == self.tag:  # a proxy that compresses adds "W/"
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.kind, headers=headers)


def page_routes() -> APIRouter:
    """Returns the routes of the web page, which are not part of the OpenAPI description."""
    routes = APIRouter(include_in_schema=False)
    files = {}
    for file in (resources.files(__package__) / "page").iterdir():
        content = file.read_bytes()
        files[file.name] = PageFile(
            content,
            KINDS[PurePosixPath(file.name).suffix],
            f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            FRAME_POLICY if file.name == "frame.html" else PAGE_POLICY,
        )

    @routes.get("/")
    async def page(request: Request) -> Response:
        """Returns the web page on which users translate."""
        return files["index.html"].answer(request)

    @routes.get("/docs")
    async def interface(request: Request) -> Response:
        """Returns the page that describes the API by examples."""
        return files["interface.html"].answer(request)

    @routes.get("/page/{name}")
    async def page_file(request: Request, name: str) -> Response:
        """Returns a script, a style sheet, an image or another file of the page."""
        if name not in files:
            raise HTTPException(404, "The page has no such file")
        return files[name].answer(request)

    return routes
