"""Reads lines from a slow stream while earlier lines are translated."""

import os
import queue
import threading
from collections.abc import Callable, Iterator

from transduce.text.lines import check_line_size, decode_lines

CHUNK_BYTES = 1 << 16
WAITING_CHUNKS = 256  # read ahead, at most


class LineStream:
    """Reads a descriptor in a thread; iterating yields all complete lines read so far, at most `limit` at a time.

    `prompt` is called before each wait for a line. The thread is a daemon and reads the descriptor itself: at exit
    neither the thread nor the lock of a buffered reader keeps the process. Iterating raises ValueError where a line
    is too long, is not UTF-8 or is markup; `name` is the file in its message.
    """

    def __init__(self, descriptor: int, name: str, limit: int, prompt: Callable[[], None] = lambda: None) -> None:
        self.descriptor, self.name, self.limit, self.prompt = descriptor, name, limit, prompt
        self._chunks: queue.Queue[bytes | OSError] = queue.Queue(WAITING_CHUNKS)
        threading.Thread(target=self._read_chunks, daemon=True).start()

    def __iter__(self) -> Iterator[list[str]]:
        """Yields windows of lines, none of them empty, until the descriptor ends."""
        lines_before, lines = 0, list[bytes]()
        unfinished = bytearray()  # the beginning of the last line
        has_ended = False
        while not has_ended or lines:
            while not has_ended and len(lines) < self.limit and not (lines and self._chunks.empty()):
                chunk = self._next_chunk()
                has_ended = not chunk
                line_size = len(unfinished) + (chunk.find(b"\n") + 1 or len(chunk))
                check_line_size(line_size, self.name, lines_before + len(lines) + 1)
                unfinished += chunk
                if b"\n" in chunk or has_ended:
                    *complete, rest = bytes(unfinished).split(b"\n")
                    lines += [line + b"\n" for line in complete]
                    unfinished = bytearray(rest)
                    if has_ended and rest:
                        lines.append(rest)
            window, lines = lines[: self.limit], lines[self.limit :]
            if decoded := decode_lines(b"".join(window), self.name, lines_before):
                yield decoded
            lines_before += len(window)

    def _next_chunk(self) -> bytes:
        """Waits for bytes; returns none at the end. Raises the OSError of the reading."""
        if self._chunks.empty():
            self.prompt()
        chunk = self._chunks.get()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def _read_chunks(self) -> None:
        """Reads until the descriptor ends or fails."""
        try:
            while chunk := os.read(self.descriptor, CHUNK_BYTES):
                self._chunks.put(chunk)
            self._chunks.put(b"")
        except OSError as error:
            self._chunks.put(error)
