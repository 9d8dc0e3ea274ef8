"""Where all that happens elsewhere arrives, and how failures among it are told from each other."""

from __future__ import annotations

import contextlib
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from sparkflow.spark.cluster.events import Event, JobEnded, LoopEnded, TaskFailed
from sparkflow.spark.cluster.failures import is_cause, is_failure, lost_worker, to_exception
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control.checkpoints.saving import CheckpointEnded

# How long the reason of a failure may take after its first consequence.
_CAUSE_WAIT_S = 10.0


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
class WorkerLost:
    """A worker's process was lost, and the others go on.

    Attributes:
        worker: The worker's index.
        error: What would have ended training.
    """

    worker: int
    error: Exception


Message: TypeAlias = Event | SegmentEnded | CheckpointEnded | WorkerLost


class Inbox:
    """One queue of messages. `put` is for any thread, the rest for the one that called `fit`.

    Attributes:
        may_lose: Whether the others can go on without a worker that was lost.
    """

    def __init__(self) -> None:
        self.may_lose: Callable[[int], bool] = lambda worker: False
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._failures: list[Event] = []
        self._aside: deque[Message] = deque()
        self._away: set[int] = set()

    def put(self, message: Message) -> None:
        """Leaves a message."""
        self._queue.put(message)

    def next(self, timeout_s: float) -> Message | None:
        """The next message that is not a failure; None if none comes in time.

        Raises:
            Exception: As `to_exception` says, once something failed.
        """
        if self._aside:
            return self._aside.popleft()
        try:
            message = self._queue.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            return None
        if not _is_failure(message):
            return message
        if self._is_echo(message):
            return None
        self._failures.append(message)
        error = self._explain()
        worker = lost_worker(self._failures)
        if worker is None or not self.may_lose(worker):
            raise error
        self._failures.clear()
        self._away.add(worker)
        return WorkerLost(worker, error)

    def welcome(self, worker: int) -> None:
        """A lost worker is back: its failures count again."""
        self._away.discard(worker)

    def _is_echo(self, message: Event) -> bool:
        """Whether this failure is one more consequence of a loss that was told before."""
        return bool(self._away) and lost_worker([*map(_loss, self._away), message]) is not None

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
            if not _is_failure(message):
                self._aside.append(message)
                continue
            self._failures.append(message)
            if isinstance(message, JobEnded):
                break  # nothing comes after it
        return to_exception(self._failures)


def _is_failure(message: Message) -> TypeGuard[Event]:
    return not isinstance(message, SegmentEnded | CheckpointEnded | WorkerLost) and is_failure(
        message
    )


def _loss(worker: int) -> Event:
    return TaskFailed(TaskName("worker", worker), "", "", lost=True)
