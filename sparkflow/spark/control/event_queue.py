"""The event queue: where events from other processes arrive, for the thread that called `fit`."""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from sparkflow.spark.cluster.events import Event, TaskFailed, TaskGone, TaskRegistered
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control.checkpoints.saving import CheckpointEnded
from sparkflow.spark.control.failure_triage import Action, Deliver, FailureTriage, Settle

_log = logging.getLogger(__name__)

_ASKS_S: Final = (0.5, 0.5, 1.0, 2.0)
"""When tasks are asked for a sign of life: seconds after the failure, and between requests."""
_ANSWER_S: Final = 0.5
"""The timeout of such a request; it is short, because it delays the cause of the failure."""


@dataclass(frozen=True, slots=True)
class SegmentEnded:
    """A worker's loop ended without an error.

    Attributes:
        worker: The worker's index.
        num_steps: The number of steps it made.
        reason: The text of the OutOfRangeError if its data ended, else "".
    """

    worker: int
    num_steps: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker's process was lost, and the others continue.

    Attributes:
        worker: The worker's index.
        error: The error that would otherwise have ended training.
    """

    worker: int
    error: Exception


Message: TypeAlias = Event | SegmentEnded | CheckpointEnded | WorkerLost


class EventQueue:
    """A queue of messages. `put` is for any thread, the rest for the one that called `fit`.

    `FailureTriage` interprets the messages; this class only waits for them.

    Attributes:
        may_lose: Whether the others can continue without a lost worker.
        all_answer: Returns whether all tasks answer within a number of seconds. If they do after a
            failure that only reports unreachable tasks, no task is lost: only a connection broke.
    """

    def __init__(self) -> None:
        self.may_lose: Callable[[int], bool] = lambda worker: False
        self.all_answer: Callable[[float], bool] = lambda timeout_s: False
        self._lock = threading.Lock()  # of the two that follow
        self._lost: set[TaskName] = set()
        self._tell_lost: list[Callable[[TaskName], None]] = []
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._triage: FailureTriage[Message] = FailureTriage()

    def put(self, message: Message) -> None:
        """Adds a message."""
        self._queue.put(message)
        match message:
            case TaskRegistered(task):
                with self._lock:
                    self._lost.discard(task)
            case TaskGone(task) | TaskFailed(task, lost=True):
                with self._lock:
                    self._lost.add(task)
                    told = list(self._tell_lost)
                for tell in told:
                    tell(task)

    def tell_lost(self, tell: Callable[[TaskName], None]) -> None:
        """Calls a function for each task that is lost, including those that are lost now.

        The threads that add the messages call it, because the thread of `fit` may be waiting for an
        answer of the lost task.
        """
        with self._lock:
            self._tell_lost.append(tell)
            lost = list(self._lost)
        for task in lost:
            tell(task)

    def next(self, timeout_s: float) -> Message | None:
        """Returns the next message that is not a failure; None if none arrives in time.

        Raises:
            Exception: From `to_exception`, once something has failed.
        """
        if self._triage.aside:
            self._triage, first = self._triage.taken()
            return first
        action = self._hear(timeout_s)
        if self._triage.until is not None:
            action = self._settle()
        if action is None or isinstance(action, Deliver):
            return None if action is None else action.message
        worker = action.worker
        _say(action)
        if worker is None or not self.may_lose(worker):
            raise action.error
        self.lose(worker)
        return WorkerLost(worker, action.error)

    def lose(self, worker: int) -> None:
        """Notes that the others continue without a worker, which explains the failures so far."""
        self._triage = self._triage.lost(worker)

    def welcome(self, worker: int) -> None:
        """Notes that a lost worker is back, so that its failures count again."""
        self._triage = self._triage.welcomed(worker)

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Lets reports of tasks that died meanwhile take precedence over errors of single steps."""
        try:
            yield
        except Exception as error:
            raise self.explained(error).error from error

    def explained(self, error: Exception) -> Settle:
        """Returns the cause of an error of a single step, possibly the loss of a task."""
        self._triage, action = self._triage.raised(error, time.monotonic())
        settled = action if isinstance(action, Settle) else self._settle()
        _say(settled)
        return settled

    def _hear(self, timeout_s: float) -> Action[Message]:
        """Passes the next message, or the time, to the triage."""
        try:
            message = self._queue.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            self._triage, action = self._triage.ticked(time.monotonic())
            return action
        event: Event | None = None
        if not isinstance(message, SegmentEnded | CheckpointEnded | WorkerLost):
            event = message
        self._triage, action = self._triage.heard(message, event, time.monotonic())
        return action

    def _settle(self) -> Settle:
        """Waits briefly for the cause of the failures so far."""
        asks = iter(_ASKS_S)
        asks_at = time.monotonic() + next(asks)
        while True:
            assert self._triage.until is not None
            action = self._hear(min(self._triage.until, asks_at) - time.monotonic())
            if isinstance(action, Settle):
                return action
            if time.monotonic() >= asks_at:
                is_there = self.all_answer(_ANSWER_S)
                asks_at = time.monotonic() + (math.inf if is_there else next(asks, math.inf))
                if is_there:
                    self._triage = self._triage.all_there(time.monotonic())


def _say(settled: Settle) -> None:
    # Logged some time before the restart: the rest of the attempt has to be ended first.
    _log.info("noticed: %s", str(settled.error).partition("\n")[0])
