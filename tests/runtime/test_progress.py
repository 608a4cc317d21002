"""Progress is counted everywhere, and displayed only where a display is set."""

from contextlib import contextmanager

from transduce.runtime.progress import Progress, display_progress, track


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
