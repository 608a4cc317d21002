"""A server in this process, whose clients need no network."""

import functools
from typing import Any

import anyio
import httpx

from transduce.serving.application import create_application
from transduce.serving.language_names import LanguageDetector
from transduce.serving.limits import ApiKeys, Limits
from transduce.serving.request_log import Metrics
from transduce.serving.served_models import ServedModels
from transduce.serving.service import Service

OPEN = Limits(requests_per_minute=None)

load_detector = functools.cache(LanguageDetector.load)


class Server:
    """An application, and one call after another of a client."""

    def __init__(self, models: ServedModels, limits: Limits, keys: ApiKeys, **options: Any) -> None:
        self.service = Service(models, load_detector(), limits, keys)
        self.application = create_application(self.service, Metrics(), version="9.9", **options)

    def client(self, **options: Any) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.application, raise_app_exceptions=False, **options)
        return httpx.AsyncClient(transport=transport, base_url="http://server")

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def called() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, **options)

        return anyio.run(called)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.call("POST", path, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.call("GET", path, **options)
