"""The message that numba is compiling, shown once per process if the compilation takes seconds."""

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger("transduce")

PATIENCE = 2.0  # seconds of compiling before the message


class CompilationAnnouncement:
    """A listener to numba that logs once that a compilation takes long; numba compiles in one thread at a time.

    `is_kept` says whether compiled code is cached for the next process.
    """

    def __init__(self, is_kept: Callable[[], bool]) -> None:
        self._is_kept, self._depth, self._is_logged = is_kept, 0, False
        self._timer = threading.Timer(0, self._log)

    def on_start(self, event: object) -> None:
        """Starts the timer at the outermost compilation; functions that it calls are compiled within it."""
        self._depth += 1
        if self._depth == 1 and not self._is_logged:
            self._timer = threading.Timer(PATIENCE, self._log)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: object) -> None:
        """Stops the timer after the outermost compilation."""
        self._depth -= 1
        if self._depth == 0:
            self._timer.cancel()

    def _log(self) -> None:
        self._is_logged = True
        when = "at the first use on a machine only"
        if not self._is_kept():
            when = "at each start, because no folder keeps it: NUMBA_CACHE_DIR=FOLDER names one that can be written"
        _log.warning(f"compiling for this processor: up to a minute, {when}")


_announcements: list[CompilationAnnouncement] = []


def announce_compilation(is_kept: Callable[[], bool]) -> None:
    """Starts announcing compilations in this process; numba must be installed."""
    from numba.core import event

    class Listener(CompilationAnnouncement, event.Listener):
        """An announcement with the base class that numba requires."""

    if not _announcements:
        _announcements.append(Listener(is_kept))
        event.register("numba:compile", _announcements[0])
