"""Recovery of workers whose process was lost while the others continue."""

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
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.master.driver import DriverMaster, Master
from sparkflow_runtime.master.loops.step_loop import Loop
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.transport.task_names import task_name

_log = logging.getLogger(__name__)

# A Spark task that restarts its process asks within moments. If a machine is gone or unreachable,
# none does, and Spark notices that only after two minutes.
_SIGN_S: Final = 20.0


class Returns(Protocol):
    """The service that lets workers return, see `cluster.registration`."""

    def cluster(self) -> ClusterDef:
        """Returns the addresses of all tasks, once all are ready."""

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        """Lets a lost worker come back, with data from this epoch and step on."""

    def is_coming_back(self, task: TaskName) -> bool:
        """Returns whether a Spark task is there to restart it, or has done so."""


@dataclass(frozen=True, slots=True)
class _Absence:
    """The loss of a worker.

    Attributes:
        since: `time.monotonic()` when its loss became known.
        error: The cause of the loss.
    """

    since: float
    error: Exception


def open_tasks(cluster: ClusterDef, credentials: Credentials, plan: TrainingPlan) -> DriverMaster:
    """Creates the master that opens sessions on the registered tasks.

    Between steps no watchdog detects stalled tasks: if a task does not answer within `startTimeout`
    and `stallTimeout`, that is an UnavailableError, as for a lost one.

    Args:
        cluster: The tasks.
        credentials: The credentials that they require.
        plan: What is trained, with the two timeouts.
    """
    longest_s = max(plan.config.start_timeout, plan.config.stall_timeout)
    return DriverMaster(
        cluster, credentials, answer_timeout_s=longest_s, hosts=named_hosts(plan.layout)
    )


def named_hosts(layout: ClusterLayout) -> dict[str, str]:
    """Returns the tasks that hold the variables of parameter servers, both with full names."""
    return {
        task_name(server.job, server.index): task_name(host.job, host.index)
        for server, host in layout.hosts.items()
    }


def give_up_lost(events: EventQueue, master: Master) -> None:
    """Makes a master give up each task that is lost, now or later."""
    events.tell_lost(lambda task: master.lose(task_name(task.job, task.index)))


class WorkerRecovery:
    """Brings lost workers back. Used by the thread that called `fit`.

    Args:
        plan: What is trained.
        credentials: The credentials to present to the tasks.
        service: Lets them return.
        events: The event queue, which reports loss and return.
        replicas: The sessions.
        recorder: Records every restart.
        stack: Closes what is opened.
        done_before: The steps of each worker at the start of the attempt.

    Attributes:
        any: Whether a worker was lost in this attempt.
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
        """Whether the others can continue while a lost worker is restarted.

        They can if only the parameter servers depend on it.
        """
        plan = self._plan
        return (
            plan.config.sync_mode == "async"
            and plan.layout.num_ps > 0
            and plan.evaluation is None
            and len(self._recorder.restarts) < plan.config.max_restarts
            # Otherwise the rows of a lost executor go to the remaining ones.
            and not plan.config.is_elastic
        )

    def made(self, worker: int) -> int | None:
        """Returns the total steps of a lost worker; its loop must have ended everywhere.

        A partially applied step does not count; `complete` applies the rest of it. None if unknown.
        """
        there = [each for each in range(len(self._done_before)) if each not in self._absent]
        asked = next((each for each in there if each != worker), None)
        if asked is not None:
            with self._events.guard():
                applied = self._replicas.applied(asked)
        else:
            try:  # its own session can still reach the parameter servers
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
            lost: The worker, and why it was lost.
            position: The epoch and the step at which it continues.
        """
        reason = str(lost.error).split("\n", 1)[0]
        _log.warning("continuing without worker task %d: %s", lost.worker, reason)
        self._recorder.add_restart(reason)
        self.any = True
        self._absent[lost.worker] = _Absence(time.monotonic(), lost.error)
        self._service.let_return(TaskName("worker", lost.worker), position)

    def bring_back(
        self, worker: int, count: int, number: int
    ) -> tuple[int, Loop | None] | WorkerLost:
        """Makes a worker that has come back continue.

        Args:
            worker: The worker.
            count: The number of remaining steps.
            number: The number of the first of them.

        Returns:
            The number of partially applied steps that were completed, and its loop for the
            remaining steps, None if there are none; or that it was lost again: then `made` may have
            changed.

        Raises:
            Exception: The failure, if the loss does not explain it or the others cannot continue.
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
        master = open_tasks(self._service.cluster(), self._credentials, self._plan)
        self._stack.callback(master.close)
        give_up_lost(self._events, master)
        self._replicas.replace(worker, master, self._stack)
        completed = self._complete(worker, master, number)
        left = max(count - completed, 0)
        loop = self._replicas.start_loop(worker, left, number + completed) if left else None
        return completed, loop

    def _complete(self, worker: int, master: Master, number: int) -> int:
        """Applies steps on the parameter servers that lack them; returns how many, mostly 0."""
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
        """Records how many steps were applied more than once: none, unless something is wrong.

        Args:
            done: The steps of each worker. No step may be running.
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
        """Raises an error if waiting has become pointless.

        Args:
            working: The workers with remaining steps, including lost ones.

        Raises:
            Exception: The cause of a loss, if the worker has not come back within `startTimeout`,
                or if the others wait for it although no Spark task can restart it.
        """
        alone = self._absent.keys() >= set(working)
        for worker, absence in self._absent.items():
            away_s = time.monotonic() - absence.since
            if away_s > self._plan.config.start_timeout:
                raise absence.error
            is_awaited = alone and away_s > _SIGN_S
            if is_awaited and not self._service.is_coming_back(TaskName("worker", worker)):
                raise absence.error
