"""The message while numba compiles: once in a process, where it takes long, and what to do where nothing is kept."""

import time

import pytest
from numba.core.event import Event, EventStatus

from transduce.runtime import compilation_announcement
from transduce.runtime.compilation_announcement import CompilationAnnouncement

START, END = (Event("numba:compile", status) for status in (EventStatus.START, EventStatus.END))


def compile_twice(announcement, seconds):
    for _ in range(2):
        announcement.on_start(START)
        announcement.on_start(START)
        time.sleep(seconds)
        announcement.on_end(END)
        announcement.on_end(END)


@pytest.mark.parametrize(
    ("is_kept", "advice"), [(True, "at the first use on a machine only"), (False, "NUMBA_CACHE_DIR=FOLDER")]
)
def test_a_long_compilation_is_announced_once(monkeypatch, log_lines, is_kept, advice):
    monkeypatch.setattr(compilation_announcement, "PATIENCE", 0.05)
    announcement = CompilationAnnouncement(lambda: is_kept)
    compile_twice(announcement, 0.0)
    assert not log_lines
    compile_twice(announcement, 0.2)
    (line,) = log_lines
    assert line.startswith("compiling for this processor")
    assert advice in line
