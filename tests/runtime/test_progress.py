"""Progress is counted everywhere, and displayed only where a display is set."""

import io
from contextlib import contextmanager

import pytest

from transduce.runtime.progress import Progress, display_progress, progress_line, stage, track


def test_a_library_displays_nothing(capsys):
    with track("translating", 3) as progress:
        progress.advance(2, note="fast")
        progress.advance()
    assert (progress.done, progress.note) == (3, "fast")
    assert capsys.readouterr() == ("", "")


def test_a_display_is_used_within_its_context():
    opened = []

    @contextmanager
    def display(description, total):
        opened.append((description, total))
        yield Progress(description, total)
        opened.append("closed")

    with display_progress(display), track("preparing", 9) as progress:
        progress.update(4)
    with track("preparing"):
        pass
    assert opened == [("preparing", 9), "closed"]


def test_stages_name_the_work_around_a_task():
    with stage("probe 2 of 4"), stage("best"), track("training") as progress:
        assert progress.description == "probe 2 of 4: best: training"
    with track("training") as progress:
        assert progress.description == "training"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "seen"), [(io.StringIO(), False), (Terminal(), True)])
def test_a_line_of_progress_is_shown_at_a_terminal_and_cleared(monkeypatch, stream, seen):
    clock = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("sys.stderr", stream)
    with progress_line(), track("translating", 20) as progress:
        progress.update(10)
        progress.update(20)
    written = stream.getvalue()
    assert ("\rtranslating 10/20, 0:00:0" in written) == seen
    assert not written or written.rsplit("\r", 2)[1].isspace()
    assert bool(written) == seen
