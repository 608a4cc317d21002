"""A server of a small model."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from local_server import OPEN, Server

from transduce.serving.limits import ApiKeys, Limits
from transduce.serving.request_log import Metrics
from transduce.serving.served_models import ServedModels
from transduce.serving.server import load_models
from transduce.translation.translator import Translator


@pytest.fixture(scope="session")
def models(fluent) -> Iterator[ServedModels]:
    """The same model as en-de, as its settings say."""
    served = load_models([str(fluent)], Metrics())
    yield served
    served.close()


@pytest.fixture(scope="session")
def translator(fluent) -> Translator:
    """The model as the command loads it."""
    return Translator.load(fluent)


@pytest.fixture
def serve(models, monkeypatch) -> Callable[..., Server]:
    """Makes servers with limits of their own; requests are counted within one minute, however long a test takes."""
    monkeypatch.setattr("limits.storage.memory.time", SimpleNamespace(time=lambda: 0.0))

    def made(limits: Limits = OPEN, keys: ApiKeys = ApiKeys(), **options: Any) -> Server:  # noqa: B008
        return Server(models, limits, keys, **options)

    return made


@pytest.fixture
def server(serve) -> Server:
    return serve()
