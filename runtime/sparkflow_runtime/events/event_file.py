"""TensorBoard event files: TFRecord files of Event messages.

The writer buffers in memory and has no thread: events are on disk after flush or close.
"""

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from google.protobuf.message import DecodeError

from sparkflow_runtime.errors import DataLossError, FailedPreconditionError
from sparkflow_runtime.events.records import frame_record, read_records
from sparkflow_runtime.files.errors import translated
from sparkflow_runtime.files.system import local_path
from sparkflow_runtime.protos import event_pb2

FILE_VERSION = "brain.Event:2"


class EventFileWriter:
    """Appends events to a new file in a log directory.

    The file is called `events.out.tfevents.<seconds>.<host>.<pid>.<n><suffix>`, which TensorBoard
    recognises by its prefix. A lock guards the file, so several threads may use one writer; calls
    block only on the file system.

    Args:
      logdir: the directory; created with its parents if it does not exist.
      suffix: end of the file name, such as ".eval".
      clock: returns the time in seconds since the epoch, for the file name and the first event.

    Raises:
      OSError: the directory or file cannot be created, or the first event cannot be written; no
        file remains. Like the errors of all other calls it names the file and its size.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        *,
        suffix: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        created_s = clock()
        self._lock = threading.Lock()
        self._path, self._file = _create_file(Path(local_path(logdir)), int(created_s), suffix)
        try:
            self.add_event(event_pb2.Event(wall_time=created_s, file_version=FILE_VERSION))
            self.flush()
        except BaseException:
            with suppress(OSError):  # it would retry the failed write
                self._file.close()
            with suppress(OSError):
                self._path.unlink()
            raise

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._path

    def add_event(self, event: event_pb2.Event) -> None:
        """Appends one event unchanged.

        Raises:
          FailedPreconditionError: the writer is closed.
          OSError: events cannot be written.
        """
        record = frame_record(event.SerializeToString())
        with self._lock:
            if self._file.closed:
                raise FailedPreconditionError(
                    message=f"cannot add an event to {self._path}: its writer is closed"
                )
            with _named(self._path):
                self._file.write(record)

    def add_scalars(self, step: int, wall_time: float, values: Mapping[str, float]) -> None:
        """Appends one event with a scalar for each tag; no event if values is empty.

        Args:
          step: the x axis in TensorBoard.
          wall_time: seconds since the epoch.
          values: tag -> value. Stored as float32; NaN and infinities are kept.

        Raises:
          FailedPreconditionError: the writer is closed.
        """
        if not values:
            return
        event = event_pb2.Event(wall_time=wall_time, step=step)
        for tag, value in values.items():
            event.summary.value.add(tag=tag, simple_value=float(value))
        self.add_event(event)

    def flush(self) -> None:
        """Passes all events so far to the operating system; does nothing once closed.

        Raises:
          OSError: writing failed. The events are kept for the next flush.
        """
        with self._lock:
            if not self._file.closed:
                with _named(self._path):
                    self._file.flush()

    def close(self) -> None:
        """Flushes and closes the file. Closing again does nothing.

        Raises:
          OSError: the last events cannot be written; the file is closed without them.
        """
        with self._lock, _named(self._path):
            self._file.close()

    def __enter__(self) -> "EventFileWriter":
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read_events(path: str | os.PathLike[str]) -> Iterator[event_pb2.Event]:
    """Yields the events of a file, the one with the file version first.

    Raises:
      NotFoundError: there is no such file.
      OpError: it cannot be read for another reason.
      DataLossError: the file is damaged or ends inside an event, as it does while a writer is
        appending one. The events before it have been yielded.
    """
    with translated(os.fspath(path)), open(local_path(path), "rb") as stream:
        for number, record in enumerate(read_records(stream)):
            try:
                event = event_pb2.Event.FromString(record)
            except DecodeError as error:
                raise DataLossError(
                    message=f"record {number} of {os.fspath(path)} is not an event: {error}"
                ) from error
            yield event


def read_scalars(path: str | os.PathLike[str]) -> dict[str, list[tuple[int, float]]]:
    """Returns tag -> [(step, value), ...] of the scalars in a file, in the file's order.

    Raises:
      OpError: as `read_events`.
    """
    scalars: dict[str, list[tuple[int, float]]] = {}
    for event in read_events(path):
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    return scalars


def _create_file(logdir: Path, created_s: int, suffix: str) -> tuple[Path, BinaryIO]:
    """Creates a file that no other writer, in this process or another, has opened."""
    with _named(logdir):
        logdir.mkdir(parents=True, exist_ok=True)
    stem = f"events.out.tfevents.{created_s:010d}.{socket.gethostname()}.{os.getpid()}"
    for number in itertools.count():
        path = logdir / f"{stem}.{number}{suffix}"
        try:
            return path, path.open("xb")
        except FileExistsError:
            continue
    raise AssertionError("itertools.count ended")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Adds this path and the file's size to OSErrors raised in its body."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        said = error.strerror or str(error)
        with suppress(OSError):
            if path.is_file():
                said += f", after {path.stat().st_size} bytes"
        raise OSError(error.errno, said, str(path)) from error
