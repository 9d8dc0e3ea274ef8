"""A reader of the records of files whose names come from a queue.

A function splits a file into records; the op is the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from sparkflow_runtime.errors import InvalidArgumentError, OpError, UnimplementedError
from sparkflow_runtime.resources.queue import Queue
from sparkflow_runtime.resources.waiting import Cancellation

Record = tuple[bytes, bytes]
"""A key that tells the record's origin, and the record's value."""


class Reader:
    """Reads records one by one. Safe to use from several threads, one of which reads at a time.

    `_lock` guards everything; it is held while the reader waits for the next file's name.

    Args:
        name: For error texts.
        records: Maps a file name to its records; closes the file when closed.
        single: Whether each file is one record, after which it is finished.
        kind: What it reads, as the type of the op that creates it.

    Attributes:
        kind: What it reads.
    """

    def __init__(
        self,
        name: str,
        records: Callable[[bytes], Iterator[Record]],
        single: bool = False,
        kind: str = "",
    ) -> None:
        self.kind = kind
        self._single = single
        self._name = name
        self._records = records
        self._lock = threading.Lock()
        self._current: Iterator[Record] | None = None
        self._started = 0
        self._finished = 0
        self._produced = 0

    def read(self, queue: Queue, step: Cancellation) -> Record:
        """Returns the next record; dequeues a file name at the end of a file.

        Raises:
            OutOfRangeError: The queue is closed and empty.
        """
        with self._lock:
            return self._next(queue, step)

    def read_up_to(self, queue: Queue, count: int, step: Cancellation) -> list[Record]:
        """Returns 1 to `count` records, all of one file; none if `count` is 0.

        Raises:
            OutOfRangeError: The queue is closed and empty.
        """
        if count < 1:
            return []
        with self._lock:
            found = [self._next(queue, step)]
            while len(found) < count:
                record = self._next_of_file() if self._current is not None else None
                if record is None:
                    break
                found.append(record)
            return found

    def produced(self) -> int:
        """The number of records read."""
        with self._lock:
            return self._produced

    def finished(self) -> int:
        """The number of files read to their end."""
        with self._lock:
            return self._finished

    def reset(self) -> None:
        """Restores the initial state; the queue is unchanged."""
        with self._lock:
            self._drop_file()
            self._started = self._finished = self._produced = 0

    def serialize_state(self) -> bytes:
        """Returns the counts, for `restore_state`; possible only between two files.

        Raises:
            UnimplementedError: It is inside a file.
        """
        with self._lock:
            if self._current is not None:
                raise UnimplementedError(
                    message=f"Reader '{self._name}' is inside a file; its state can be saved "
                    "between files only"
                )
            return b"%d %d %d" % (self._started, self._finished, self._produced)

    def restore_state(self, state: bytes) -> None:
        """Restores counts.

        Raises:
            InvalidArgumentError: `state` does not come from `serialize_state`.
        """
        parts = state.split()
        if len(parts) != 3 or not all(part.isdigit() and len(part) < 20 for part in parts):
            raise InvalidArgumentError(
                message=f"Could not parse state for reader '{self._name}': {state!r}"
            )
        with self._lock:
            self._drop_file()
            self._started, self._finished, self._produced = map(int, parts)

    def close(self) -> None:
        """Closes the open file when the reader is dropped; never blocks.

        If another thread is reading (and may wait for a queue that is closed only later), that
        thread closes the file when it has finished.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._drop_file()
            finally:
                self._lock.release()

    def _next(self, queue: Queue, step: Cancellation) -> Record:
        while True:
            if self._current is None:
                (name,) = queue.dequeue(step)
                self._started += 1
                self._current = self._records(bytes(name.item()))
            record = self._next_of_file()
            if record is not None:
                return record

    def _next_of_file(self) -> Record | None:
        assert self._current is not None
        try:
            record = next(self._current, None)
        except OpError:
            self._current = None  # the next read continues with the next file
            raise
        if record is None:
            self._current = None
            self._finished += 1
            return None
        self._produced += 1
        if self._single:
            self._current = None
            self._finished += 1
        return record

    def _drop_file(self) -> None:
        current, self._current = self._current, None
        close = getattr(current, "close", None)
        if close is not None:
            close()
