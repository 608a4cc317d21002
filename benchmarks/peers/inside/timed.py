"""Times a translating peer: reads the task, warms up, translates, and prints a report."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Ids = list[list[int]]


def read_task() -> dict[str, Any]:
    """Returns the task that the benchmark has written."""
    task: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    return task


def report(translate: Callable[[Ids], Ids], sentences: Ids, settings: dict[str, Any]) -> None:
    """Translates all twice, the first time to warm up; prints seconds, ids and settings as a line of JSON."""
    translate(sentences)
    began = time.perf_counter()
    outputs = translate(sentences)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "outputs": outputs, "settings": settings}))
