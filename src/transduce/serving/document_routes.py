"""LibreTranslate's API for documents: a client uploads a document, and downloads the translation from a URL."""

import asyncio
import contextlib
import errno
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response, StreamingResponse
from starlette.datastructures import UploadFile

from transduce.documents.document import SUFFIXES, Document, DocumentLanguages, TextFormat, format_by_name, plain
from transduce.documents.formats import read_document
from transduce.serving.batch_queue import Ticket
from transduce.serving.contract import Failure, TranslateFileAnswer, TranslateFileRequest
from transduce.serving.language_names import is_auto
from transduce.serving.libretranslate import ERRORS, check_form_encoding, languages_of_texts, parse_values
from transduce.serving.limits import address_of
from transduce.serving.request_log import note_texts
from transduce.serving.service import RETRY_SECONDS, Service
from transduce.serving.text_translation import PlainText, TextRequest, translate_document

KEPT_SECONDS = 1800.0
KEPT_BYTES = 1 << 26  # largest size of all translated documents together
SENT_BYTES = 1 << 16  # number of bytes sent at a time, so that a document is not copied as a whole for a slow client
DETECTED_CHARACTERS = 2000  # number of characters at the start of a document from which its language is detected
NAMING_SOURCE = {TextFormat.XLIFF, TextFormat.TMX}  # formats that name the source language, which must be the model's
DOCUMENTS_AT_ONCE = 4  # documents in memory at a time; an archive of a few megabytes may contain 256 MB
UPLOADS_OF_CLIENT = 4  # uploads of a single client at a time
UPLOADS_AT_ONCE = 32  # uploads at a time; they are read before the key is checked, and on disk if above a megabyte


class TranslatedFile(NamedTuple):
    """A translated document, and the time until which it is kept."""

    name: str
    content: bytes
    deadline: float


class TranslatedFiles:
    """Keeps translated documents in memory for `KEPT_SECONDS`, each under a secret key.

    If the documents together exceed `KEPT_BYTES`, the oldest are dropped earlier.
    """

    def __init__(self) -> None:
        self._files: OrderedDict[str, TranslatedFile] = OrderedDict()

    def add(self, name: str, content: bytes) -> str:
        """Stores a file and returns its secret key."""
        self.forget_expired()
        secret = secrets.token_urlsafe(16)
        self._files[secret] = TranslatedFile(name, content, time.monotonic() + KEPT_SECONDS)
        while len(self._files) > 1 and sum(len(file.content) for file in self._files.values()) > KEPT_BYTES:
            self._files.popitem(last=False)
        return secret

    def find(self, secret: str) -> TranslatedFile:
        """Returns the file stored under `secret`; raises an HTTP error with status 404 if it is unknown or expired."""
        self.forget_expired()
        if secret not in self._files:
            raise HTTPException(404, "This file does not exist, or its time is over")
        return self._files[secret]

    def forget_expired(self) -> None:
        """Deletes the files that have expired."""
        now = time.monotonic()
        for expired in [key for key, file in self._files.items() if file.deadline <= now]:
            del self._files[expired]


class DocumentSlots:
    """Limits the number of documents that are handled at the same time, in total and for each client. Thread-safe."""

    def __init__(self, count: int, of_client: int) -> None:
        self._count, self._of_client = count, of_client
        self._taken = Counter[str]()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def take(self, client: str) -> Iterator[None]:
        """Takes a slot for the duration of the context.

        Raises an HTTP error with status 503 if all slots, or all slots of this client, are taken.
        """
        with self._lock:
            if self._taken.total() >= self._count or self._taken[client] >= self._of_client:
                message = "Too many documents are waiting: try again later"
                raise HTTPException(503, message, {"Retry-After": RETRY_SECONDS})
            self._taken[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[client] -= 1
                self._taken += Counter()  # removes clients without slots


@contextlib.contextmanager
def full_disks() -> Iterator[None]:
    """Converts errors about a full disk or an exceeded quota within the context to an HTTP error with status 507."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise HTTPException(507, "The server has no space for the document: try again later") from None


def document_routes(service: Service) -> APIRouter:
    """Returns the routes for documents."""
    routes = APIRouter(tags=["LibreTranslate"], responses=ERRORS)
    files, uploads = TranslatedFiles(), DocumentSlots(UPLOADS_AT_ONCE, UPLOADS_OF_CLIENT)
    documents = DocumentSlots(DOCUMENTS_AT_ONCE, DOCUMENTS_AT_ONCE)
    schema = TranslateFileRequest.model_json_schema()
    document_field = {"type": "string", "format": "binary", "description": "The document."}
    schema["properties"] = {"file": document_field, **schema["properties"]}
    schema["required"] = ["file", *schema["required"]]
    form = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}

    @routes.post(
        "/translate_file",
        openapi_extra=form,
        responses={507: {"model": Failure, "description": "The server has no space for the document."}},
    )
    async def translate_file(request: Request) -> TranslateFileAnswer:
        """Translates a document and keeps its structure; the file name extension determines the format."""
        client = address_of(request)
        with uploads.take(client), full_disks():
            with service.counting_faults(request):
                check_form_encoding(request)
                await request.form(max_files=1, max_fields=20)
            async with request.form() as fields:
                upload = fields.get("file")
                with service.counting_faults(request):
                    values = {name: fields[name] for name in fields if name != "file"}
                    body = parse_values(TranslateFileRequest, values)
                service.admit(request, body.api_key)
                if not isinstance(upload, UploadFile) or not upload.filename:
                    raise HTTPException(400, "Invalid request: missing file parameter")
                path, content = PurePosixPath(upload.filename.replace("\\", "/")), await upload.read()

        def translate(ticket: Ticket) -> tuple[bytes, list[str]]:
            with documents.take(client):
                target = service.models.language(body.target)
                document: Document | None = None
                beginning = ""
                if is_auto(body.source):
                    document = _read(path.name, content, DocumentLanguages(None, target), ticket)
                    beginning = " ".join(plain(unit.content) for unit in document.units)[:DETECTED_CHARACTERS]
                (detected,) = languages_of_texts(service, [beginning], body.source, target)
                source = detected.language
                served = service.models.find(source, target)
                if document is None or format_by_name(PurePosixPath(path.name)) in NAMING_SOURCE:
                    document = _read(path.name, content, DocumentLanguages(source, target), ticket)
                texts = [plain(unit.content) for unit in document.units]
                if (characters := sum(map(len, texts))) > service.limits.document_characters:
                    limit = service.limits.document_characters
                    raise ValueError(f"Invalid request: document ({characters}) exceeds text limit ({limit})")
                return translate_document(TextRequest(served, ticket), document), texts

        translated, texts = await service.answer(request, translate)
        note_texts(request, texts)
        secret = files.add(f"{path.stem}_{body.target}{path.suffix}", translated)
        asyncio.get_running_loop().call_later(KEPT_SECONDS, files.forget_expired)
        url = request.url_for("download_file", secret=secret)
        prefix = getattr(request.state, "forwarded_prefix", "")
        return TranslateFileAnswer(translatedFileUrl=str(url.replace(path=prefix + url.path)))

    missing: dict[int | str, dict[str, Any]] = {
        404: {"model": Failure, "description": "The file does not exist, or its time is over."}
    }

    @routes.get("/download_file/{secret}", response_class=Response, responses=missing)
    async def download_file(secret: str) -> Response:
        """Returns a translated document."""
        file = files.find(secret)
        disposition = f"attachment; filename*=UTF-8''{quote(file.name)}"
        length = str(len(file.content))
        headers = {"Content-Disposition": disposition, "Cache-Control": "no-store", "Content-Length": length}
        return StreamingResponse(_parts(file.content), media_type="application/octet-stream", headers=headers)

    return routes


async def _parts(content: bytes) -> AsyncIterator[bytes]:
    """Yields the content of a document in pieces of `SENT_BYTES` bytes."""
    for start in range(0, len(content), SENT_BYTES):
        yield content[start : start + SENT_BYTES]


def _read(name: str, content: bytes, languages: DocumentLanguages, ticket: Ticket) -> Document:
    """Reads a document in the format that its file name extension indicates.

    Raises ValueError if the format is unknown or the file is damaged, and SearchStoppedError if the client is no longer
    waiting.
    """
    ticket.check()
    path = PurePosixPath(name)
    kind = TextFormat.TEXT if path.suffix.lower() == ".txt" else format_by_name(path)
    if kind is None:
        raise ValueError(f"Invalid request: the file format of {name} is not one of {', '.join(['.txt', *SUFFIXES])}")
    document: Document
    if kind is TextFormat.TEXT:
        try:
            document = PlainText(content.decode())
        except UnicodeDecodeError:
            raise ValueError("the file is not UTF-8; convert it to UTF-8") from None
    else:
        document = read_document(content, kind, languages)
    ticket.check()
    return document
