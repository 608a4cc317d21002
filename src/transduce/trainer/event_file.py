"""An event file of TensorBoard.

torch's writer is not used: where the disk fails, its thread prints a traceback on standard error and loses values.
"""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

__all__ = ["EventFile"]


class EventFile:
    """Writes numbers for TensorBoard into a new file; raises OSError where the disk fails."""

    def __init__(self, directory: Path, purge_step: int | None) -> None:
        """Opens the file; TensorBoard hides values of earlier files from step `purge_step` on."""
        # Imported here because the import takes a moment.
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        directory.mkdir(parents=True, exist_ok=True)
        # Nanoseconds: TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}.0"
        self._records = RecordWriter((directory / name).open("wb"))
        self._write(file_version="brain.Event:2")
        if purge_step is not None:
            self._write(step=purge_step, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of a step."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self._write(step=step, summary=summary)
        self._records.flush()

    def close(self) -> None:
        """Closes the file; what could not be written before may raise OSError again."""
        self._records.close()

    def _write(self, **fields: object) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
