"""Time and memory grow with the length of a document and no faster, whatever it contains."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hostile_documents import CASES, Measured, measured
from small_documents import docx

LENGTHS = (17_500, 70_000)
SECONDS, MEGABYTES = 5.0, 100.0  # for 70 kB, on a slow machine
GROWTH, FREE_SECONDS, FREE_MEGABYTES = 8.0, 1.0, 20.0  # four times as long a text; less is not compared

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the memory is that of Linux")


@pytest.mark.parametrize("kind", CASES)
def test_time_and_memory_grow_with_the_length(kind: str) -> None:
    script = Path(__file__).with_name("hostile_documents.py")
    command = [sys.executable, str(script), kind, *map(str, LENGTHS)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True).stdout
    results = [json.loads(line) for line in output.splitlines()]
    assert [name for name, _ in results] == list(CASES[kind])
    faults = []
    for name, (short, long) in results:
        before, after = Measured(*short), Measured(*long)
        is_slow = after.seconds > SECONDS or after.seconds > max(FREE_SECONDS, GROWTH * before.seconds)
        is_large = after.megabytes > MEGABYTES or after.megabytes > max(FREE_MEGABYTES, GROWTH * before.megabytes)
        is_refused = bool(after.error)
        if is_slow or is_large or is_refused != CASES[kind][name].is_refused or after.error.endswith("!"):
            faults.append((name, before, after))
    assert not faults


def test_a_docx_of_some_hundred_bytes_takes_no_gigabyte() -> None:
    body = f"<w:p><w:r><w:rPr>{'<w:b/>' * 30_000}</w:rPr><w:t>a</w:t>{'<w:tab/>' * 22_000}</w:r></w:p>"
    content = docx(body, zipfile.ZIP_DEFLATED)
    assert len(content) < 1500
    taken = measured("docx", content)
    assert taken.megabytes < MEGABYTES
    assert "would repeat its formatting in" in taken.error
