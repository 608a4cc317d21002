"""Builds the ASGI application of the server, with its routes, limits and error handlers."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from transduce.serving.contract import Failure, Status
from transduce.serving.document_routes import document_routes
from transduce.serving.libretranslate import libretranslate_routes, validation_message
from transduce.serving.limits import BodyLimit, address_of
from transduce.serving.page_routes import page_routes
from transduce.serving.request_log import Metrics, RequestLog
from transduce.serving.service import Service
from transduce.serving.v1_routes import v1_routes


class DescribedApplication(FastAPI):
    """A FastAPI application whose OpenAPI description omits status 422, because invalid requests get status 400."""

    def openapi(self) -> dict[str, Any]:
        """Returns the OpenAPI description without status 422."""
        description = super().openapi()
        for methods in description["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("422", None)
        return description


class SingleSlashes:
    """ASGI middleware that treats several consecutive slashes in a path as one.

    A client whose base URL ends with a slash requests `//translate` when it appends `/translate`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._application = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, with consecutive slashes in its path replaced by one."""
        if scope["type"] == "http" and "//" in scope["path"]:
            scope["path"] = re.sub("/{2,}", "/", scope["path"])
        await self._application(scope, receive, send)


class HeadRequests:
    """ASGI middleware that handles a HEAD request like a GET request.

    The HTTP server then sends only the headers of the response (RFC 9110).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._application = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, with the method HEAD replaced by GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._application(scope, receive, send)
            return
        inner = {**scope, "method": "GET"}
        await self._application(inner, receive, send)
        if "route" in inner:
            scope["route"] = inner["route"]  # for the request log


def create_application(service: Service, metrics: Metrics, *, version: str, logs_texts: bool = False) -> FastAPI:
    """Builds the ASGI application for `service`, which is closed when the application shuts down."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    application = DescribedApplication(
        title="transduce",
        version=version,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    for routes in (libretranslate_routes, document_routes, v1_routes):
        application.include_router(routes(service))
    application.include_router(page_routes())

    @application.get("/health", tags=["operation"])
    async def health() -> Status:
        """Returns status 200 as long as the process is alive."""
        return Status(status="ok")

    @application.get("/ready", tags=["operation"], responses={503: {"model": Failure, "description": "Not ready."}})
    async def ready() -> Status:
        """Returns status 200 if every model accepts texts, and status 503 otherwise."""
        if not all(queue.is_working for queue in service.models.queues):
            raise HTTPException(503, "a model does not take texts")
        return Status(status="ok")

    @application.get("/metrics", tags=["operation"], response_class=Response)
    async def show_metrics() -> Response:
        """Returns the metrics of the server in Prometheus's text format."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @application.get("/spec", include_in_schema=False)
    async def spec() -> dict[str, Any]:
        """Returns the OpenAPI description, at the path that LibreTranslate uses for it."""
        return application.openapi()

    async def validation_error(request: Request, error: Exception) -> Response:
        """Answers an invalid request with status 400, and counts it towards the client's rate limit."""
        assert isinstance(error, RequestValidationError)
        try:
            service.count_request(address_of(request))
        except HTTPException as refusal:
            return await _http_error(request, refusal)
        return _failure(validation_message(error.errors()), 400)

    async def client_left(_: Request, error: Exception) -> Response:
        """Returns status 499, which nginx uses for clients that have disconnected; only the log records it."""
        return _failure("The client left before its request was answered", 499)

    async def server_error(_: Request, error: Exception) -> Response:
        """Returns status 500 after an error in the server itself; only the log contains the reason."""
        return _failure("The server failed; its log says why", 500)

    application.add_exception_handler(AnyHTTPException, _http_error)
    application.add_exception_handler(RequestValidationError, validation_error)
    application.add_exception_handler(ClientDisconnect, client_left)
    application.add_exception_handler(Exception, server_error)
    documents = {"/translate_file": service.limits.document_bytes}
    application.add_middleware(BodyLimit, max_bytes=service.limits.body_bytes, exceptions=documents)
    application.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    application.add_middleware(HeadRequests)
    application.add_middleware(SingleSlashes)
    application.add_middleware(RequestLog, metrics=metrics, logs_texts=logs_texts)
    metrics.watch(lambda: service.accepted, lambda: sum(queue.waiting_sentences for queue in service.models.queues))
    return application


async def _http_error(_: Request, error: Exception) -> Response:
    """Answers an HTTP error in LibreTranslate's error format."""
    assert isinstance(error, AnyHTTPException)
    return _failure(error.detail, error.status_code, error.headers)


def _failure(message: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Builds an error response; escapes unpaired surrogates in the message, because UTF-8 cannot encode them."""
    return JSONResponse({"error": message.encode(errors="backslashreplace").decode()}, status, headers)
