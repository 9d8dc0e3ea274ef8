"""Workers whose process was lost while the others go on, until they are back."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.control.event_queue import EventQueue, WorkerLost
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.control.recorder import HistoryRecorder
from sparkflow.spark.control.replicas import Replicas
from sparkflow.spark.params.config import FitConfig
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.master.driver import DriverMaster, Master
from sparkflow_runtime.master.loops.step_loop import Loop
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.transport.task_names import task_name

_log = logging.getLogger(__name__)

# Who starts a process again asks within moments. Nobody does where a machine is gone or cannot be
# reached, and Spark notices that after two minutes only.
_SIGN_S: Final = 20.0


class Returns(Protocol):
    """What lets workers return, see `cluster.registration`."""

    def cluster(self) -> ClusterDef:
        """The addresses of all tasks, once all are ready."""

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        """Lets a lost worker come back, with its data from this epoch and step on."""

    def is_coming_back(self, task: TaskName) -> bool:
        """Whether somebody is there to start it again, or has."""


@dataclass(frozen=True, slots=True)
class _Absence:
    """Of a worker.

    Attributes:
        since: `time.monotonic()` when its loss was known.
        error: What it was lost by.
    """

    since: float
    error: Exception


def open_tasks(cluster: ClusterDef, credentials: Credentials, config: FitConfig) -> DriverMaster:
    """What opens sessions over the registered tasks.

    Between the steps of workers nobody watches for those that stand still: what a task does not
    answer within `startTimeout` and `stallTimeout` is an UnavailableError, as of one that is lost.

    Args:
        cluster: The tasks.
        credentials: What they ask for.
        config: Has the two.
    """
    longest_s = max(config.start_timeout, config.stall_timeout)
    return DriverMaster(cluster, credentials, answer_timeout_s=longest_s)


def give_up_lost(events: EventQueue, master: Master, layout: ClusterLayout) -> None:
    """Has a master give up each task that is lost, now or later, and what its process hosts."""

    def lose(task: TaskName) -> None:
        for each in (task, layout.hosted_by(task)):
            if each is not None:
                master.lose(task_name(each.job, each.index))

    events.tell_lost(lose)


class WorkerRecovery:
    """Brings lost workers back. Used by the thread that called `fit`.

    Args:
        plan: What is trained.
        credentials: What the tasks are shown.
        service: Lets them return.
        events: Where their loss and return are told.
        replicas: The sessions.
        recorder: Notes every restart.
        stack: Closes what is opened.
        done_before: Per worker the steps that were made when the attempt began.

    Attributes:
        any: Whether one was lost in this attempt.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        credentials: Credentials,
        service: Returns,
        events: EventQueue,
        replicas: Replicas,
        recorder: HistoryRecorder,
        stack: contextlib.ExitStack,
        done_before: Sequence[int],
    ) -> None:
        self._plan = plan
        self._credentials = credentials
        self._service = service
        self._events = events
        self._replicas = replicas
        self._recorder = recorder
        self._stack = stack
        self._absent: dict[int, _Absence] = {}
        self._torn: dict[int, npt.NDArray[np.int64]] = {}
        self._done_before = done_before
        self._repeated = 0
        self.any = False

    def __contains__(self, worker: int) -> bool:
        return worker in self._absent

    def may_lose_one(self) -> bool:
        """Whether the others can go on while a lost worker is started again.

        They can where nothing but the parameter servers knows of it.
        """
        plan = self._plan
        return (
            plan.config.sync_mode == "async"
            and plan.layout.num_ps > 0
            and plan.evaluation is None
            and len(self._recorder.restarts) < plan.config.max_restarts
            # There the rows of a lost executor go to those that are left.
            and not plan.config.is_elastic
        )

    def made(self, worker: int) -> int | None:
        """The steps that a lost worker has made in all; its loop must have ended everywhere.

        One that was cut in two does not count; `complete` makes the rest of it. None where nobody
        knows.
        """
        there = [each for each in range(len(self._done_before)) if each not in self._absent]
        asked = next((each for each in there if each != worker), None)
        if asked is not None:
            with self._events.guard():
                applied = self._replicas.applied(asked)
        else:
            try:  # its own session still reaches the parameter servers
                applied = self._replicas.applied(worker)
            except OpError as error:
                _log.warning("what worker task %d had made cannot be asked: %s", worker, error)
                return None
        if applied is None:
            return None
        self._torn[worker] = applied[:, worker]
        return self._done_before[worker] + int(applied[:, worker].min())

    def let_return(self, lost: WorkerLost, position: tuple[int, int]) -> None:
        """Lets a worker come back.

        Args:
            lost: Which one, and why.
            position: The epoch and the step at which it goes on.
        """
        reason = str(lost.error).split("\n", 1)[0]
        _log.warning("the others go on without worker task %d: %s", lost.worker, reason)
        self._recorder.add_restart(reason)
        self.any = True
        self._absent[lost.worker] = _Absence(time.monotonic(), lost.error)
        self._service.let_return(TaskName("worker", lost.worker), position)

    def bring_back(
        self, worker: int, count: int, number: int
    ) -> tuple[int, Loop | None] | WorkerLost:
        """Has a worker that has come back go on.

        Args:
            worker: Which one.
            count: The steps that are left.
            number: The number of the first of them.

        Returns:
            How many steps were completed that it was lost in, and its loop of what is left, None if
            that is nothing; that it was lost again where it was: then `made` may have changed.

        Raises:
            Exception: What failed if there is more to it, or the others cannot go on.
        """
        del self._absent[worker]
        self._events.welcome(worker)
        try:
            completed, loop = self._begin_again(worker, count, number)
        except Exception as error:
            settled = self._events.explained(error)
            if settled.worker != worker or not self.may_lose_one():
                raise settled.error from error
            self._events.lose(worker)
            return WorkerLost(worker, settled.error)
        _log.info("worker task %d is back, %d steps are left", worker, max(count - completed, 0))
        return completed, loop

    def _begin_again(self, worker: int, count: int, number: int) -> tuple[int, Loop | None]:
        master = open_tasks(self._service.cluster(), self._credentials, self._plan.config)
        self._stack.callback(master.close)
        give_up_lost(self._events, master, self._plan.layout)
        self._replicas.replace(worker, master, self._stack)
        completed = self._complete(worker, master, number)
        left = max(count - completed, 0)
        loop = self._replicas.start_loop(worker, left, number + completed) if left else None
        return completed, loop

    def _complete(self, worker: int, master: Master, number: int) -> int:
        """Makes what some parameter servers lack of steps that others have; how many, mostly 0."""
        applied = self._torn.pop(worker, None)
        if applied is None or not np.ptp(applied):
            return 0
        first, last = int(applied.min()), int(applied.max())
        for step in range(first, last):
            made_by = np.flatnonzero(applied > step).tolist()
            self._replicas.complete(worker, master, number + step - first, made_by)
        _log.info("worker task %d: completed %d steps that were cut in two", worker, last - first)
        return last - first

    def count_repeated(self, done: Sequence[int]) -> None:
        """Notes how many steps were applied more than once: none, unless something is wrong.

        Args:
            done: Per worker the steps made. No step is under way.
        """
        if not self.any:
            return
        with self._events.guard():
            applied = self._replicas.applied(0)
        if applied is None:
            return
        made = [after - before for after, before in zip(done, self._done_before, strict=True)]
        repeated = int(np.maximum(applied.max(0) - np.array(made), 0).sum())
        if repeated > self._repeated:
            history = self._recorder.history
            history.repeated_steps += repeated - self._repeated
            self._repeated = repeated
            _log.warning("%d steps of lost workers were applied twice", history.repeated_steps)

    def check(self, working: Collection[int]) -> None:
        """Passes while there is hope.

        Args:
            working: The workers whose steps are not all made, lost ones among them.

        Raises:
            Exception: What a worker was lost by that has not come back in `startTimeout`, or that
                the others wait for although nobody is there who might start it again.
        """
        alone = self._absent.keys() >= set(working)
        for worker, absence in self._absent.items():
            away_s = time.monotonic() - absence.since
            if away_s > self._plan.config.start_timeout:
                raise absence.error
            is_awaited = alone and away_s > _SIGN_S
            if is_awaited and not self._service.is_coming_back(TaskName("worker", worker)):
                raise absence.error
