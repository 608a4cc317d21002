"""`transduce serve`: serves translations over HTTP."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.options import MachineChoice
from transduce.runtime.extras import install_command


def serve(
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Model directories; en:de=RUN states the languages if RUN does not, or selects one of its directions.",
        ),
    ],
    machine: MachineChoice,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 means all addresses of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 selects a free one.")] = 5000,
    keys: Annotated[
        Path | None, typer.Option(help="File with one API key per line; clients must send one of them.")
    ] = None,
    max_characters: Annotated[int, typer.Option(min=1, help="Maximum number of characters per request.")] = 10_000,
    max_document_characters: Annotated[
        int, typer.Option(min=1, help="Maximum number of characters per document.")
    ] = 100_000,
    max_texts: Annotated[int, typer.Option(min=1, help="Maximum number of texts per request.")] = 100,
    requests_per_minute: Annotated[
        int, typer.Option(min=0, help="Maximum requests per client and minute; 0 means no limit.")
    ] = 120,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Maximum number of requests in progress; further ones get status 503.")
    ] = 64,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds after which an unanswered request gets status 503.")
    ] = 30.0,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Proxy, or network such as 10.0.0.0/8, whose X-Forwarded headers are trusted; may be repeated.",
        ),
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Include the texts of requests in the log.")] = False,
    tag: Annotated[
        str | None, typer.Option(help="Tag for the kind of text, one of those that the model was trained with.")
    ] = None,
) -> None:
    """Serves translations over HTTP, through LibreTranslate's API and an API of its own."""
    _check_installed()
    _check_proxies(trusted_proxy or ())
    from transduce import __version__
    from transduce.runtime.signals import raise_on_signals
    from transduce.serving.limits import ApiKeys, Limits
    from transduce.serving.request_log import Metrics
    from transduce.serving.server import Address, load_models, serve_forever

    limits = Limits(
        characters=max_characters,
        texts=max_texts,
        requests_per_minute=requests_per_minute or None,
        accepted=max_waiting,
        seconds=timeout,
        document_characters=max_document_characters,
    )
    api_keys = ApiKeys.read(keys) if keys else ApiKeys()
    metrics = Metrics()
    with raise_on_signals():
        models = load_models(run, metrics, device=machine.set_up(), precision=machine.precision_name, tag=tag)
        address = Address(host, port, trusted_proxy or ())
        serve_forever(models, metrics, address, limits, api_keys, version=__version__, logs_texts=log_texts)


def _check_proxies(proxies: Sequence[str]) -> None:
    """Raises ValueError for a proxy that is neither an IP address nor a network, because it would match no client."""
    import ipaddress

    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            raise ValueError(
                f"--trusted-proxy {proxy}: write an address, or a network such as 10.0.0.0/8, whose bits after the "
                "first 8 are zero; for several repeat the option"
            ) from None


def _check_installed() -> None:
    """Raises ValueError if a library that the server needs is not installed."""
    for library in ("fastapi", "langcodes", "limits", "prometheus_client", "python_multipart", "uvicorn"):
        if importlib.util.find_spec(library) is None:
            raise ValueError(f"{library} is not installed, and the server needs it: {install_command('serve')}")
