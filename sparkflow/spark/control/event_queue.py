"""Where all that happens elsewhere arrives, for the thread that called `fit`."""

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
"""When tasks are asked whether they are there: so long after the failure, and after each other."""
_ANSWER_S: Final = 0.5
"""How long each time nothing else is heard; it is short, because a cause is heard later by that."""


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


class EventQueue:
    """One queue of messages. `put` is for any thread, the rest for the one that called `fit`.

    What its messages mean is decided by `FailureTriage`; here is only the waiting.

    Attributes:
        may_lose: Whether the others can go on without a worker that was lost.
        all_answer: Whether all tasks answer within so many seconds. If so, after a failure that
            says no more than that others are gone, nobody is: a connection alone broke.
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
        """Leaves a message."""
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
        """Has a function told of each task that is lost, those included that are and are not back.

        By the threads that leave such messages, for the one of `fit` may be waiting for an answer
        of theirs.
        """
        with self._lock:
            self._tell_lost.append(tell)
            lost = list(self._lost)
        for task in lost:
            tell(task)

    def next(self, timeout_s: float) -> Message | None:
        """The next message that is not a failure; None if none comes in time.

        Raises:
            Exception: As `to_exception` says, once something failed.
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
        """The others go on without a worker: failures so far are explained by that."""
        self._triage = self._triage.lost(worker)

    def welcome(self, worker: int) -> None:
        """A lost worker is back: its failures count again."""
        self._triage = self._triage.welcomed(worker)

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Has errors of single steps compete with the reports of tasks that died meanwhile."""
        try:
            yield
        except Exception as error:
            raise self.explained(error).error from error

    def explained(self, error: Exception) -> Settle:
        """What explains an error of a single step, which tasks that died meanwhile may."""
        self._triage, action = self._triage.raised(error, time.monotonic())
        settled = action if isinstance(action, Settle) else self._settle()
        _say(settled)
        return settled

    def _hear(self, timeout_s: float) -> Action[Message]:
        """Gives the triage the next message, or the time."""
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
        """Waits a little for the cause of the failures so far."""
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
    # Some time before a restart is told of: what is left of the attempt has to be ended first.
    _log.info("noticed: %s", str(settled.error).partition("\n")[0])
