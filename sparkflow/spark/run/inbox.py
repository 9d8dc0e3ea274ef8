"""Where all that happens elsewhere arrives, and how failures among it are told from each other."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sparkflow.spark.job.events import Event, JobEnded, LoopEnded
from sparkflow.spark.job.failures import is_cause, is_failure, to_exception

# How long the reason of a failure may take after its first consequence.
_CAUSE_WAIT_S = 6.0


@dataclass(frozen=True, slots=True)
class SegmentEnded:
    """A worker's loop ended well, after so many steps.

    Attributes:
        worker: The worker's index.
        num_steps: The steps it made.
        reason: The text of the OutOfRangeError if its data ended, else "".
    """

    worker: int
    num_steps: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointEnded:
    """A checkpoint was written, or could not be.

    Attributes:
        step: The step that it is of.
        path: Where it is; "" if it failed.
        error: Why it failed.
    """

    step: int
    path: str
    error: Exception | None = None


Message: TypeAlias = Event | SegmentEnded | CheckpointEnded


class Inbox:
    """One queue of messages. `put` is for any thread, the rest for the one that called `fit`."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._failures: list[Event] = []

    def put(self, message: Message) -> None:
        """Leaves a message."""
        self._queue.put(message)

    def next(self, timeout_s: float) -> Message | None:
        """The next message that is not a failure; None if none comes in time.

        Raises:
            Exception: As `to_exception` says, once something failed.
        """
        try:
            message = self._queue.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            return None
        if isinstance(message, SegmentEnded | CheckpointEnded) or not is_failure(message):
            return message
        self._failures.append(message)
        raise self._explain()

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Has errors of single steps compete with the reports of tasks that died meanwhile."""
        try:
            yield
        except Exception as error:
            self._failures.append(LoopEnded(0, error))
            explained = self._explain()
            raise explained from error

    def _explain(self) -> Exception:
        """Waits a little for the cause of the failures so far."""
        deadline = time.monotonic() + _CAUSE_WAIT_S
        while not any(map(is_cause, self._failures)):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                message = self._queue.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(message, SegmentEnded | CheckpointEnded):
                continue
            if is_failure(message):
                self._failures.append(message)
            if isinstance(message, JobEnded):
                break  # nothing comes after it
        return to_exception(self._failures)
