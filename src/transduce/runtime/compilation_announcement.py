"""Announces that numba is compiling, with a message once per process if the compilation takes several seconds."""

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger("transduce")

PATIENCE = 2.0  # seconds of compilation after which the message is logged


class CompilationAnnouncement:
    """A numba event listener that logs a message, once only, if a compilation takes a long time.

    `is_kept` is a function that returns True if the compiled code is cached for later processes. No locking is needed,
    because numba compiles in only one thread at a time.
    """

    def __init__(self, is_kept: Callable[[], bool]) -> None:
        self._is_kept, self._depth, self._is_logged = is_kept, 0, False
        self._timer = threading.Timer(0, self._log)

    def on_start(self, event: object) -> None:
        """Starts the timer when an outermost compilation begins.

        Compilations are nested, because the functions that a function calls are compiled with it.
        """
        self._depth += 1
        if self._depth == 1 and not self._is_logged:
            self._timer = threading.Timer(PATIENCE, self._log)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: object) -> None:
        """Cancels the timer when the outermost compilation ends."""
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
    """Registers a listener that announces compilations in this process; numba must be installed."""
    from numba.core import event

    class Listener(CompilationAnnouncement, event.Listener):
        """A `CompilationAnnouncement` that is derived from the base class that numba requires."""

    if not _announcements:
        _announcements.append(Listener(is_kept))
        event.register("numba:compile", _announcements[0])
