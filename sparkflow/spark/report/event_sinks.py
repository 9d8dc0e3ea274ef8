"""Sinks for TensorBoard's events: a growing local file, or a sequence of remote files."""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow.fs

from sparkflow_runtime.events.event_file import FILE_VERSION, EventFileWriter
from sparkflow_runtime.events.records import frame_record
from sparkflow_runtime.files.system import arrow_uri
from sparkflow_runtime.protos.event_pb2 import Event

# The seconds per file at first, and later, to limit the number of files.
_FIRST_S, _LATER_S = 5.0, 60.0


class EventSink(Protocol):
    """Accepts events in order."""

    def add(self, event: Event) -> None:
        """Adds an event."""

    def flush(self) -> None:
        """Makes added events visible to TensorBoard, possibly with a delay."""

    def close(self) -> None:
        """Writes the remaining events."""


def open_sink(directory: str, wall_clock: Callable[[], float] = time.time) -> EventSink:
    """Returns a sink for a run's directory.

    Args:
        directory: A local path, or a URI that `pyarrow.fs.FileSystem.from_uri` understands;
            `s3a:` and `s3n:` are read as `s3:`.
        wall_clock: Returns seconds since the epoch.

    Raises:
        OSError: The directory cannot be created.
        ValueError: pyarrow does not know the scheme.
    """
    if "://" not in directory:
        return LocalSink(directory, wall_clock)
    system, path = pyarrow.fs.FileSystem.from_uri(arrow_uri(directory))
    return RemoteSink(system, path, wall_clock)


class LocalSink:
    """One file, appended to.

    Args:
        directory: Created if it does not exist.
        wall_clock: Returns seconds since the epoch.
    """

    def __init__(self, directory: str, wall_clock: Callable[[], float] = time.time) -> None:
        self._writer = EventFileWriter(directory, clock=wall_clock)

    def add(self, event: Event) -> None:
        """Appends."""
        self._writer.add_event(event)

    def flush(self) -> None:
        """Flushes to the operating system."""
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()


class RemoteSink:
    """A sequence of files, each written once: object stores cannot append.

    TensorBoard reads the files of a directory in the order of their names, and proceeds to the next
    one when it exists.

    Args:
        system: A pyarrow file system.
        directory: A path in it.
        clock: Returns seconds since the epoch.

    Raises:
        OSError: The file system cannot be reached.
    """

    def __init__(self, system: Any, directory: str, clock: Callable[[], float] = time.time) -> None:
        self._system = system
        self._directory = directory
        self._clock = clock
        self._began = clock()
        self._stem = f"events.out.tfevents.{int(self._began):010d}"
        self._name = f"{socket.gethostname()}.{os.getpid()}"
        self._files = 0
        self._buffer = io.BytesIO()
        self._next = self._began + _FIRST_S
        system.create_dir(directory, recursive=True)

    def add(self, event: Event) -> None:
        """Keeps the event until the next file is due."""
        if not self._buffer.tell():
            version = Event(wall_time=self._clock(), file_version=FILE_VERSION)
            self._buffer.write(frame_record(version.SerializeToString()))
        self._buffer.write(frame_record(event.SerializeToString()))

    def flush(self) -> None:
        """Writes a file if it is due."""
        if self._clock() >= self._next:
            self._write()

    def close(self) -> None:
        """Writes the last file."""
        self._write()

    def _write(self) -> None:
        if self._buffer.tell():
            # Numbers come before host and process, so that names sort as they were written.
            path = f"{self._directory}/{self._stem}.{self._files:06d}.{self._name}"
            with self._system.open_output_stream(path) as stream:
                stream.write(self._buffer.getvalue())
            self._files += 1
            self._buffer = io.BytesIO()
        waited = self._clock() - self._began
        self._next = self._clock() + min(max(_FIRST_S, waited / 10), _LATER_S)
