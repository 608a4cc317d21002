"""Loads models and serves them until a signal arrives; accepted requests are still answered before the process ends."""

import contextlib
import errno
import logging
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple, cast

import uvicorn
from fastapi import FastAPI
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from transduce.documents.sentence_splitter import load_segment
from transduce.model_directory.model import Model
from transduce.runtime.signals import raise_on_signals
from transduce.serving.application import create_application
from transduce.serving.batch_queue import BatchQueue
from transduce.serving.connection import MAX_CONNECTIONS, BoundedConnection
from transduce.serving.language_names import LanguageDetector, language_name
from transduce.serving.limits import ApiKeys, Limits
from transduce.serving.request_log import Metrics
from transduce.serving.served_models import ServedDirection, ServedModels, serve_model
from transduce.serving.service import Service
from transduce.text.directions import Direction
from transduce.translation.engine import TranslationPrecision
from transduce.translation.translator import Translator

_log = logging.getLogger("transduce")

OPEN_FILES = 4096  # limit on the connections and all other open files of the process
NAMED_RUN = re.compile(r"(?P<source>[\w-]+):(?P<target>[\w-]+)=(?P<run>.+)")


PATH_PREFIX = re.compile(r"(?:/[\w.~-]+)+")


class Address(NamedTuple):
    """The address on which a server listens, and the proxies that it trusts to report the addresses of clients."""

    host: str
    port: int
    trusted_proxies: Sequence[str] = ()


def load_models(
    runs: Sequence[str],
    metrics: Metrics,
    *,
    device: str = "cpu",
    precision: TranslationPrecision = "float32",
    tag: str | None = None,
) -> ServedModels:
    """Loads the models in `runs`, each of which is a directory or has the form `en:de=DIRECTORY`.

    The second form names the languages of a model that does not record them, or selects one of several directions.
    Raises ValueError like `Translator.load` and `serve_model`, and if two models have the same direction.
    """
    load_segment()
    directions: list[ServedDirection] = []
    for argument in runs:
        named = None if Path(argument).exists() else NAMED_RUN.fullmatch(argument)
        run = Path(named["run"] if named else argument)
        languages = Direction(named["source"], named["target"]) if named else Direction(None, None)
        pairs = Model.read_config(run).directions
        target = pairs[0].target if pairs else None  # any target language; `serve_model` sets that of each direction
        translator = Translator.load(run, device=device, precision=precision, to=target, tag=tag)
        directions += serve_model(run, translator, BatchQueue(metrics.group_sentences.observe), languages, tag)
        translator.translate("a", prefix="a")  # compiles searches with a prefix before a request has to wait for it
    return ServedModels(directions)


def serve_forever(
    models: ServedModels,
    metrics: Metrics,
    address: Address,
    limits: Limits,
    keys: ApiKeys,
    *,
    version: str,
    logs_texts: bool,
) -> None:
    """Serves until SIGINT or SIGTERM arrives, answers every accepted request, and then raises Interrupted.

    A second signal ends the process immediately. Raises OSError, which names the address, if the server cannot listen
    on it, for example because it is in use.
    """
    service = Service(models, LanguageDetector.load(), limits, keys)
    for code in models.languages:
        language_name(code)  # the first call takes a second, in which no request would be answered
    application = create_application(service, metrics, version=version, logs_texts=logs_texts)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family, backlog=MAX_CONNECTIONS)
    except OSError as error:
        reason = str(error.strerror).partition(" (while attempting")[0]
        if error.errno == errno.EADDRNOTAVAIL:
            reason = "not an address of this machine; leave out --host, or write 0.0.0.0 for all of its addresses"
        raise OSError(error.errno, reason, f"{address.host}:{address.port}") from None
    with contextlib.suppress(ImportError, ValueError, OSError):  # some operating systems do not limit open files
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        open_files = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        if soft != resource.RLIM_INFINITY and soft < open_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, hard))
    host, port = listening.getsockname()[:2]
    printed_host = f"[{host}]" if ":" in host else host
    _log.info("serving %s at http://%s:%d", ", ".join(map(str, models.directions)), printed_host, port)
    with raise_on_signals(), listening:
        SignalledServer(server_config(application, address, limits.seconds)).run([listening])


class SignalledServer(uvicorn.Server):
    """A uvicorn server that ends immediately at any second signal, whereas uvicorn itself requires SIGINT for this."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins a graceful shutdown or, at the second signal, ends the server immediately."""
        self.force_exit = self.force_exit or self.should_exit
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles signals within the context, including SIGHUP, which is sent when a terminal is closed.

        SIGHUP is treated like SIGTERM, unless the process ignores it, as under `nohup`.
        """
        with super().capture_signals():
            hang_up = getattr(signal, "SIGHUP", None)  # Windows has none
            if hang_up is None or signal.getsignal(hang_up) is not signal.SIG_DFL:
                yield
                return
            signal.signal(hang_up, lambda _, frame: self.handle_exit(signal.SIGTERM, frame))
            try:
                yield
            finally:
                signal.signal(hang_up, signal.SIG_DFL)


class TrustedProxy(ProxyHeadersMiddleware):
    """Takes the address of a client and the scheme of its request from the headers of a trusted proxy.

    If the proxy removed a prefix from the path, it can send the prefix as X-Forwarded-Prefix. The prefix is then stored
    as `forwarded_prefix` in the state of the request, so that links in answers can begin with it.
    """

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Handles a request or another event of the server."""
        client = None if scope["type"] == "lifespan" else scope.get("client")
        if scope["type"] == "http" and client is not None and client[0] in self.trusted_hosts:
            prefix = dict(scope["headers"]).get(b"x-forwarded-prefix", b"").decode("latin-1").rstrip("/")
            if PATH_PREFIX.fullmatch(prefix):
                scope["state"] = {**scope.get("state", {}), "forwarded_prefix": prefix}
        await super().__call__(scope, receive, send)


def server_config(application: FastAPI, address: Address, seconds: float) -> uvicorn.Config:
    """Builds the uvicorn configuration for an application that answers each request within `seconds`."""
    # These libraries log warnings about what clients send, so that an attacker could fill the log.
    for library in ("uvicorn.error", "python_multipart"):
        logging.getLogger(library).setLevel(logging.ERROR)
    proxies = list(address.trusted_proxies)
    return uvicorn.Config(
        TrustedProxy(cast(ASGI3Application, application), proxies) if proxies else application,
        http=BoundedConnection,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=2 * MAX_CONNECTIONS,  # above half of it, BoundedConnection closes waiting connections
        proxy_headers=False,
        timeout_graceful_shutdown=int(seconds) + 5,
    )
