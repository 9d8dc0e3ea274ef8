"""Workers whose process was lost while the others go on, until they are back."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Protocol

from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.control.event_queue import EventQueue, WorkerLost
from sparkflow.spark.control.plan import TrainingPlan
from sparkflow.spark.control.recorder import HistoryRecorder
from sparkflow.spark.control.replicas import Replicas
from sparkflow_runtime.master.driver import DriverMaster
from sparkflow_runtime.master.loops.step_loop import Loop
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)


class Returns(Protocol):
    """What lets workers return, see `cluster.registration`."""

    def cluster(self) -> ClusterDef:
        """The addresses of all tasks, once all are ready."""

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        """Lets a lost worker come back, with its data from this epoch and step on."""


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
    ) -> None:
        self._plan = plan
        self._credentials = credentials
        self._service = service
        self._events = events
        self._replicas = replicas
        self._recorder = recorder
        self._stack = stack
        self._absent: dict[int, tuple[float, Exception]] = {}
        self._steps_before = recorder.history.steps
        self._repeated = 0
        self.any = False

    def __contains__(self, worker: int) -> bool:
        return worker in self._absent

    def may_lose_one(self) -> bool:
        """Whether the others can go on while a lost worker is started again.

        They can where nothing but the parameter servers knows of it.
        """
        plan = self._plan
        restarts = len(self._recorder.history.restarts)
        return (
            plan.config.sync_mode == "async"
            and plan.layout.num_ps > 0
            and plan.evaluation is None
            and restarts < plan.config.max_restarts
        )

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
        deadline = time.monotonic() + self._plan.config.start_timeout
        self._absent[lost.worker] = (deadline, lost.error)
        self._service.let_return(TaskName("worker", lost.worker), position)

    def bring_back(self, worker: int, count: int, number: int) -> Loop | None:
        """Has a worker that has come back go on; None if it has nothing left to do.

        Args:
            worker: Which one.
            count: The steps that are left.
            number: The number of the first of them.
        """
        del self._absent[worker]
        with self._events.guard():
            master = DriverMaster(self._service.cluster(), self._credentials)
            self._stack.callback(master.close)
            self._replicas.replace(worker, master, self._stack)
            self._events.welcome(worker)
            if not count:
                return None
            loop = self._replicas.start_loop(worker, count, number)
        _log.info("worker task %d is back, %d steps are left", worker, count)
        return loop

    def count_repeated(self) -> None:
        """Notes how many steps were applied that no worker has told of. No step is under way."""
        if not self.any:
            return
        with self._events.guard():
            applied = self._replicas.applied()
        history = self._recorder.history
        before, told = history.repeated_steps, history.steps - self._steps_before
        if applied is not None and applied - told > self._repeated:
            history.repeated_steps = before + applied - told - self._repeated
            self._repeated = applied - told
            _log.warning(
                "%d steps of lost workers were applied before they were reported, and made "
                "again: the variables have seen %d steps for the %d of the data",
                history.repeated_steps,
                history.steps + history.repeated_steps,
                history.steps,
            )

    def check(self) -> None:
        """Passes while there is hope.

        Raises:
            Exception: What a worker was lost by that has not come back in `startTimeout`.
        """
        for deadline, error in self._absent.values():
            if time.monotonic() > deadline:
                raise error
