"""A reader: goes through the records of files whose names come from a queue.

What the records of a file are is given as a function; who reads is the op.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from sparkflow_runtime.errors import InvalidArgumentError, OpError, UnimplementedError
from sparkflow_runtime.resources.queue import Queue
from sparkflow_runtime.resources.waiting import Cancellation

Record = tuple[bytes, bytes]
"""A key that says where it comes from, and its value."""


class Reader:
    """Reads record after record. Safe to use from several threads, one of which reads at a time.

    `_lock` guards everything; it is held while the reader waits for the next file's name.

    Args:
        name: For error texts.
        records: From a file's name to its records; closes the file when it is closed itself.
        single: Whether each file is one record, and finished when that has been read.
        kind: What it reads, as the op type that makes it.

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
        """The next record; takes a name from the queue when a file is at its end.

        Raises:
            OutOfRangeError: The queue is closed and empty.
        """
        with self._lock:
            return self._next(queue, step)

    def read_up_to(self, queue: Queue, count: int, step: Cancellation) -> list[Record]:
        """At least one record and at most `count`, all of one file; none where `count` is 0.

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
        """How many records it has read."""
        with self._lock:
            return self._produced

    def finished(self) -> int:
        """How many files it has read to their end."""
        with self._lock:
            return self._finished

    def reset(self) -> None:
        """Goes back to where it was when it was made; the queue keeps what it has."""
        with self._lock:
            self._drop_file()
            self._started = self._finished = self._produced = 0

    def serialize_state(self) -> bytes:
        """Its counts, for `restore_state`; possible between two files only.

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
        """Takes over counts.

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
        """Closes the file that is open; never blocks, for whoever drops the reader.

        While another thread reads, which may wait for a queue that is closed only after this, the
        file is closed when that thread lets go of the reader.
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
            self._current = None  # the next read goes on with the next file
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
