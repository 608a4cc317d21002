"""LibreTranslate's own tests of its interface, against our server.

The tests are not ours to copy. Fetch and unpack them:

    pip download --no-deps libretranslate==1.9.6 && python3 -m zipfile -e libretranslate-*.whl tests
    python stress/libretranslate_contract.py runs/en-de tests

They translate English to Spanish and look at the form of the answer only, so RUN is served under these names, whatever
its languages are.
"""

import argparse
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import httpx
import pytest

from transduce.serving.application import create_application
from transduce.serving.language_names import LanguageDetector
from transduce.serving.limits import ApiKeys, Limits
from transduce.serving.request_log import Metrics
from transduce.serving.served_models import ServedModels
from transduce.serving.server import load_models
from transduce.serving.service import Service


class FlaskResponse:
    """An answer with the attributes that the tests read of Flask's."""

    def __init__(self, answer: httpx.Response) -> None:
        self.status_code, self.data = answer.status_code, answer.content
        self.json = answer.json() if answer.content else None


class FlaskClient:
    """Calls our application as Flask's test client calls LibreTranslate's."""

    def __init__(self, application: Any) -> None:
        self._application = application

    def _call(self, method: str, path: str, **values: Any) -> FlaskResponse:
        async def called() -> httpx.Response:
            transport = httpx.ASGITransport(self._application, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, path, **values)

        return FlaskResponse(anyio.run(called))

    def get(self, path: str, **values: Any) -> FlaskResponse:
        """Returns the answer to a GET request."""
        return self._call("GET", path, **values)

    def post(self, path: str, **values: Any) -> FlaskResponse:
        """Returns the answer to a POST request."""
        return self._call("POST", path, **values)


def stand_in(name: str, **attributes: Any) -> None:
    """Puts a module of LibreTranslate's that the tests import into `sys.modules`."""
    module = ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module


def main() -> None:
    """Runs the tests."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("tests", type=Path, help="the unpacked wheel")
    arguments = parser.parse_args()
    (served,) = load_models([arguments.run], Metrics()).directions.values()
    models = ServedModels([served._replace(source="en", target="es")])
    service = Service(models, LanguageDetector.load(), Limits(requests_per_minute=None), ApiKeys())
    application = create_application(service, Metrics(), version="contract")

    class App:
        def test_client(self) -> FlaskClient:
            return FlaskClient(application)

    package = arguments.tests.absolute() / "libretranslate"
    stand_in("libretranslate", __path__=[str(package)])
    stand_in("libretranslate.app", create_app=lambda _: App())
    stand_in("libretranslate.main", get_args=lambda: None)
    folder = str(package / "tests" / "test_api")
    sys.exit(pytest.main([folder, "-v", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={arguments.tests}"]))


if __name__ == "__main__":
    main()
