"""How a translating peer is measured: the same sentences, a warm-up, then the whole, and what came out."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Ids = list[list[int]]


def task() -> dict[str, Any]:
    """What to do, as the benchmark wrote it."""
    found: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    return found


def report(translate: Callable[[Ids], Ids], sentences: Ids, settings: dict[str, Any]) -> None:
    """Translates a tenth to warm up, then all; prints the seconds, the ids and the settings as a line of JSON."""
    translate(sentences[::10])
    began = time.perf_counter()
    outputs = translate(sentences)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "outputs": outputs, "settings": settings}))
