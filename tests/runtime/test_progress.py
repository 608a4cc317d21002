"""Progress is counted everywhere, and displayed only where a display was chosen."""

from contextlib import contextmanager

from transduce.runtime.progress import Progress, display_progress, track


def test_a_library_displays_nothing(capsys):
    with track("translating", 3) as progress:
        progress.advance(2, note="fast")
        progress.advance()
    assert (progress.done, progress.note) == (3, "fast")
    assert capsys.readouterr() == ("", "")


def test_the_display_that_was_chosen_is_used_and_given_back():
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
