"""An event file that is written by a thread of its own, so that training does not wait for it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from sparkflow_runtime.events.event_file import EventFileWriter
from sparkflow_runtime.protos.event_pb2 import Event

_LONGEST_WAIT_S: Final = 3600.0


class QueuedEventWriter:
    """Puts events into a queue from which a thread writes them. Safe to use from several threads.

    The thread starts with the first event and ends with `close`. `_changed` guards `_waiting`,
    `_closing`, `_error` and `_thread`.

    Args:
        logdir: The directory of the event file.
        max_queue: `add` waits while so many events are in the queue.
        flush_s: The file is flushed every so many seconds.
        suffix: The end of the file's name.

    Raises:
        OSError: The directory or the file cannot be made.
    """

    def __init__(self, logdir: str, max_queue: int, flush_s: float, suffix: str) -> None:
        self._max_queue = max(1, max_queue)
        self._flush_s = flush_s
        self._changed = threading.Condition()
        self._waiting: deque[Event] = deque()
        self._closing = False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        self._file = EventFileWriter(logdir, suffix=suffix)

    def add(self, event: Event) -> None:
        """Hands on an event; waits for room in the queue.

        Raises:
            Exception: What writing an earlier event failed with.
        """
        with self._changed:
            self._check()
            if self._closing:
                return
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="event-writer", daemon=True)
                thread.start()
                self._thread = thread
            self._await(lambda: len(self._waiting) < self._max_queue)
            self._waiting.append(event)
            self._changed.notify_all()

    def flush(self) -> None:
        """Waits until everything added so far is in the file.

        Raises:
            Exception: What writing failed with.
        """
        with self._changed:
            self._await(lambda: not self._waiting)
            self._check()
        self._file.flush()

    def close(self) -> None:
        """Writes what is left, closes the file and ends the thread; may be called again."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        self._file.close()

    def _await(self, is_so: Callable[[], bool]) -> None:
        while not is_so() and self._error is None:
            self._changed.wait(_LONGEST_WAIT_S)

    def _check(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _work(self) -> None:
        flushed = time.monotonic()
        while True:
            with self._changed:
                while not (self._waiting or self._closing):
                    left = max(0.0, flushed + self._flush_s - time.monotonic())
                    if not self._changed.wait(min(left, _LONGEST_WAIT_S)):
                        break
                events = list(self._waiting)
                is_last = self._closing and not events
            if is_last:
                return
            try:
                for event in events:
                    self._file.add_event(event)
                now = time.monotonic()
                if now >= flushed + self._flush_s:
                    self._file.flush()
                    flushed = now
            except Exception as error:
                self._done(len(events), error)
            else:
                self._done(len(events), None)

    def _done(self, count: int, error: Exception | None) -> None:
        with self._changed:
            for _ in range(count):
                self._waiting.popleft()
            if error is not None:
                self._error = error
            self._changed.notify_all()
