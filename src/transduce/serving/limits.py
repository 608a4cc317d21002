"""What a server accepts of its clients: sizes, rates, keys."""

import hmac
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fastapi import HTTPException, Request
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from transduce.storage.regular_files import read_regular_file

__all__ = ["ApiKeys", "Limits", "RequestRate", "address_of"]


class Limits(NamedTuple):
    """Limits of a server; a client that exceeds one gets an error, and the others notice nothing."""

    characters: int = 10_000  # of all texts of a request
    texts: int = 100  # of a request
    requests_per_minute: int | None = 120  # of a client
    accepted: int = 64  # requests that wait or are translated
    seconds: float = 30.0  # until an accepted request is answered
    document_characters: int = 100_000  # of the text of a document
    document_bytes: int = 8 << 20

    @property
    def body_bytes(self) -> int:
        """The most bytes of a request that carries no document: escapes take 12 bytes a character."""
        return 12 * self.characters + 1024 * self.texts + 4096

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raises an error of status 400 for too many texts or characters, and for what is no text."""
        if len(texts) > self.texts:
            raise HTTPException(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({self.texts})")
        characters = sum(map(len, texts))
        if characters > self.characters:
            message = f"Invalid request: request ({characters}) exceeds text limit ({self.characters})"
            raise HTTPException(400, message)
        if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
            raise HTTPException(400, "Invalid request: a text has half a surrogate pair, such as \\ud800")


def address_of(request: Request) -> str:
    """Returns the address of a client; of IPv6 the network of 64 bits, whose addresses one client may all have."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(address.ipv4_mapped or ipaddress.ip_network((address.packed, 64), strict=False))


class RequestRate:
    """Counts the requests of each client within a minute that slides."""

    def __init__(self, requests_per_minute: int | None) -> None:
        """None: no limit."""
        self._item = None if requests_per_minute is None else RateLimitItemPerMinute(requests_per_minute)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def check(self, client: str) -> None:
        """Counts a request; raises an error of status 429 where the client has made too many."""
        if self._item is not None and not self._limiter.hit(self._item, client):
            raise HTTPException(429, f"Slowdown: {self._item}", {"Retry-After": "60"})


class ApiKeys:
    """The keys that clients must send; none where the server is open."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._keys = [key.encode() for key in keys]

    @classmethod
    def read(cls, path: Path) -> "ApiKeys":
        """Reads a file with one key a line, besides comments that begin with "#".

        Raises ValueError where it has no key, or is not UTF-8.
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
        """Raises an error of status 403 without a key of the file."""
        if not self._keys:
            return
        if key is None:
            raise HTTPException(403, "Please contact the server operator to get an API key")
        matches = [hmac.compare_digest(accepted, key.encode(errors="replace")) for accepted in self._keys]
        if not any(matches):
            raise HTTPException(403, "Invalid API key")
