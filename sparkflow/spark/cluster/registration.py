"""Where tasks report who and where they are: the service on the driver.

`RegisterTask` answers when every task has come, with the whole cluster: rendezvous and roll-call in
one. `AwaitEnd` lasts as long as the job and brings instructions. When a task's process dies, its
call breaks and the driver knows at once; when the driver dies, the tasks do.

A job may take several attempts. When one begins, the processes that live forget the one before and
register again, and those that were lost are started again by their Spark tasks.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sparkflow.spark.cluster.events import (
    ClusterRefused,
    Post,
    RowsReady,
    TaskFailed,
    TaskGone,
    TaskRegistered,
)
from sparkflow.spark.cluster_layout import Layout, TaskName
from sparkflow_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    InvalidArgumentError,
    UnavailableError,
)
from sparkflow_runtime.protos import rendezvous_pb2
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.rendezvous_pb2 import (
    AwaitEndResponse,
    ReportStateRequest,
    TaskInfo,
)
from sparkflow_runtime.transport import rpc

SERVICE = "sparkflow_runtime.protos.RegistrationService"

PATIENCE: Final = rpc.Patience(ask_s=3.0, wait_s=3.0)
"""How long a task may not answer until the driver gives its process up."""
# A task whose connection broke while the driver stood still is back at once.
_GRACE_S = 1.5
# Between the arrival of the last task and its readiness there is one answer and some imports.
_READY_S = 60.0

Check: TypeAlias = Callable[[Sequence[TaskInfo]], str]
"""Says what is wrong with the tasks that have come; an empty text when they fit."""
ShowLines: TypeAlias = Callable[[TaskName, Sequence[str], int], None]
"""Takes lines of a task's log, and how many were left out before them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a task's last heartbeat said.

    Attributes:
        rows: Rows received so far.
        steps: Steps of its loops so far.
        heard_s: `time.monotonic()` when it came.
    """

    rows: int
    steps: int
    heard_s: float


class RegistrationServer:
    """The driver's side. Events are posted from the threads of gRPC.

    `_changed` guards all fields that change.

    Args:
        layout: The tasks that must come.
        post: Takes what happens.
        host: The address to listen on.
        token: The job's token.
        check: Asked once all tasks have come.
        show_lines: Takes lines of the tasks' logs, from the threads of gRPC.
        patience: When a task that does not answer is given up.
    """

    def __init__(
        self,
        layout: Layout,
        post: Post,
        host: str,
        token: str,
        check: Check = lambda infos: "",
        show_lines: ShowLines = lambda task, lines, dropped: None,
        patience: rpc.Patience = PATIENCE,
    ) -> None:
        self._layout = layout
        self._expected = frozenset(layout.tasks)
        self._post = post
        self._check = check
        self._show_lines = show_lines
        # A connection that was closed is noticed sooner: heartbeats come every two seconds.
        self._silent_s = patience.ask_s + patience.wait_s / 2
        self._changed = threading.Condition()
        self._attempt = 0
        self._feed_plan = ""
        self._tasks: dict[TaskName, TaskInfo] = {}
        self._ready: set[TaskName] = set()
        self._gone: set[TaskName] = set()
        self._following: dict[TaskName, object] = {}
        self._lost: set[TaskName] = set()
        self._returning: dict[TaskName, str] = {}
        self._progress: dict[TaskName, Progress] = {}
        self._clock_ahead: dict[TaskName, float] = {}
        self._states: dict[TaskName, ReportStateRequest] = {}
        self._states_asked = 0
        self._ended: str | None = None
        pb = rendezvous_pb2
        methods = {
            "RegisterTask": rpc.Method(self._register, pb.RegisterTaskRequest),
            "TaskReady": rpc.Method(self._task_ready, pb.TaskReadyRequest),
            "DataReady": rpc.Method(self._data_ready, pb.DataReadyRequest),
            "ReportFailure": rpc.Method(self._report_failure, pb.ReportFailureRequest),
            "AwaitEnd": rpc.Method(
                self._await_end, pb.AwaitEndRequest, streams=True, wants_context=True
            ),
            "AwaitRestart": rpc.Method(
                self._await_restart, pb.AwaitRestartRequest, wants_context=True
            ),
            "Heartbeat": rpc.Method(self._heartbeat, pb.HeartbeatRequest),
            "ReportState": rpc.Method(self._report_state, pb.ReportStateRequest),
            "WriteLogs": rpc.Method(self._write_logs, pb.WriteLogsRequest),
        }
        self._server = rpc.RpcServer(
            [rpc.handlers(SERVICE, methods)], host=host, port=0, token=token, patience=patience
        )
        self._server.start()
        self.port = self._server.port

    def begin_attempt(self, feed_plan: str) -> int:
        """Has all tasks register, again if they did before; returns the attempt's number from 1.

        Args:
            feed_plan: What workers are told about their rows, as JSON.
        """
        with self._changed:
            self._attempt += 1
            self._feed_plan = feed_plan
            self._tasks.clear()
            self._ready.clear()
            self._gone.clear()
            self._progress.clear()
            self._lost.clear()
            self._returning.clear()
            self._changed.notify_all()
            return self._attempt

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        """Lets a lost worker come back into the attempt that goes on without it.

        Args:
            task: The worker.
            start: Where its data begin: epochs that are over, steps of the next one.
        """
        with self._changed:
            plan = json.loads(self._feed_plan)
            starts = [list(each) for each in plan.get("start", ())]
            starts += [[0, 0]] * (task.index + 1 - len(starts))
            starts[task.index] = list(start)
            self._returning[task] = json.dumps({**plan, "start": starts})
            self._ready.discard(task)
            self._changed.notify_all()

    def wait_for_answers(self, timeout_s: float) -> bool:
        """Whether every task can begin a new attempt: it lives, or asks to be started again.

        Waits up to `timeout_s` for that.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: self._expected <= self._following.keys() | self._lost, timeout_s
            )

    def cluster(self) -> ClusterDef:
        """The tasks that have registered, with their addresses, and what they host.

        Waits until all are ready to be used, which they are a moment after the last has come.

        Raises:
            UnavailableError: Some are not, for long.
        """
        with self._changed:
            ready = self._changed.wait_for(
                # Of a task that is gone, an event says why.
                lambda: self._tasks.keys() <= self._ready or self._gone or self._ended is not None,
                _READY_S,
            )
            if not ready:
                late = ", ".join(map(str, sorted(self._tasks.keys() - self._ready)))
                raise UnavailableError(
                    message=f"{late} registered, but said nothing more for {_READY_S:g} s"
                )
        return self._cluster()

    def _cluster(self) -> ClusterDef:
        with self._changed:
            members = {task: info.address for task, info in self._tasks.items()}
            for task, info in self._tasks.items():
                hosted = self._layout.hosted_by(task)
                if hosted is not None:
                    members[hosted] = info.ps_address
        cluster = ClusterDef()
        for job in sorted({task.job for task in members}):
            own = {task.index: where for task, where in members.items() if task.job == job}
            cluster.job.add(name=job, tasks=dict(sorted(own.items())))
        return cluster

    def missing(self) -> list[TaskName]:
        """The tasks that have not registered yet."""
        with self._changed:
            return sorted(self._expected - self._tasks.keys())

    def progress(self) -> Mapping[TaskName, Progress]:
        """The last heartbeat of each task."""
        with self._changed:
            return dict(self._progress)

    def infos(self) -> Mapping[TaskName, TaskInfo]:
        """What each task said when it registered."""
        with self._changed:
            return dict(self._tasks)

    def states(self, timeout_s: float) -> Mapping[TaskName, ReportStateRequest]:
        """Asks all tasks what they do; those that do not answer within `timeout_s` are left out."""
        with self._changed:
            self._states.clear()
            self._states_asked += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._following.keys() <= self._states.keys(), timeout_s)
            return dict(self._states)

    def end(self, reason: str = "") -> None:
        """Tells all tasks to end, once; `reason` is empty when training ended well."""
        with self._changed:
            if self._ended is None:
                self._ended = reason
            self._changed.notify_all()

    def close(self) -> None:
        """Ends all tasks and stops listening. May be called more than once."""
        self.end("The driver has stopped")
        self._server.stop()

    def _register(self, request: Any) -> rendezvous_pb2.RegisterTaskResponse:
        info = request.task
        name = TaskName(info.job, info.task)
        if name not in self._expected:
            raise InvalidArgumentError(message=f"The job has no {name}")
        with self._changed:
            if name in self._tasks and name not in self._returning:
                raise AlreadyExistsError(
                    message=f"{name} has registered from {self._tasks[name].address} already"
                )
            own_plan = self._returning.pop(name, None)
            self._lost.discard(name)
            self._gone.discard(name)
            self._tasks[name] = info
            self._clock_ahead[name] = info.time_s - time.time() if info.time_s else 0.0
            attempt = self._attempt
            infos = list(self._tasks.values())
        if len(infos) == len(self._expected):
            problem = self._check(infos)
            if problem:
                self._post(ClusterRefused(problem))
                self.end(problem)
        self._post(TaskRegistered(name, info.address, info.host))
        with self._changed:
            self._changed.notify_all()
            while (
                len(self._tasks) < len(self._expected)
                and self._ended is None
                and self._attempt == attempt
            ):
                self._changed.wait()
            if self._ended is not None:
                raise CancelledError(message=self._ended or "Training has ended")
            if self._attempt != attempt:
                raise AbortedError(message="The job has begun another attempt")
            plan = own_plan or self._feed_plan
        return rendezvous_pb2.RegisterTaskResponse(
            cluster=self._cluster(), attempt=attempt, feed_plan=plan
        )

    def _task_ready(self, request: Any) -> rendezvous_pb2.TaskReadyResponse:
        with self._changed:
            self._ready.add(TaskName(request.job, request.task))
            self._changed.notify_all()
        return rendezvous_pb2.TaskReadyResponse()

    def _data_ready(self, request: Any) -> rendezvous_pb2.DataReadyResponse:
        name = TaskName(request.job, request.task)
        self._post(RowsReady(name, request.rows, request.validation_rows))
        return rendezvous_pb2.DataReadyResponse()

    def _report_failure(self, request: Any) -> rendezvous_pb2.ReportFailureResponse:
        name = TaskName(request.task.job, request.task.task)
        with self._changed:
            time_s = request.time_s - self._clock_ahead.get(name, 0.0)
        self._post(
            TaskFailed(
                name, request.task.host, request.message, request.traceback, request.lost, time_s
            )
        )
        return rendezvous_pb2.ReportFailureResponse()

    def _await_end(self, request: Any, context: Any) -> Iterator[AwaitEndResponse]:
        name = TaskName(request.job, request.task)
        marker = object()
        is_broken = self._watch(context)
        with self._changed:
            if name in self._gone:
                raise AbortedError(message=f"{name} was given up: it did not answer for a while")
            self._following[name] = marker
            seen = (request.attempt, self._states_asked)
            self._changed.notify_all()
        while True:
            with self._changed:
                while not is_broken() and self._ended is None and self._now() == seen:
                    self._changed.wait()
                reason, (attempt, asked) = self._ended, self._now()
            if reason is not None:
                yield AwaitEndResponse(reason=reason, ended=True)
                return
            if is_broken():
                self._lose(name, marker)
                return
            yield AwaitEndResponse(
                attempt=attempt if attempt != seen[0] else 0, wants_state=asked != seen[1]
            )
            seen = (attempt, asked)

    def _watch(self, context: Any) -> Callable[[], bool]:
        """Says whether a call has broken; whoever waits for `_changed` is woken then."""
        broken = threading.Event()

        def notice() -> None:
            broken.set()
            with self._changed:
                self._changed.notify_all()

        if not context.add_callback(notice):
            broken.set()  # before we could ask to be told
        return broken.is_set

    def _now(self) -> tuple[int, int]:
        """What those who follow have to be told of; under `_changed`."""
        return self._attempt, self._states_asked

    def _lose(self, name: TaskName, marker: object) -> None:
        with self._changed:
            if self._following.get(name) is not marker:
                return  # another process of the task is there already
            del self._following[name]
            attempt = self._attempt
            heard = self._progress.get(name)
            silent_s = time.monotonic() - heard.heard_s if heard is not None else 0.0
            if silent_s < self._silent_s:
                silent_s = 0.0
            elif self._changed.wait_for(
                lambda: name in self._following or self._attempt != attempt, _GRACE_S
            ):
                return
            self._gone.add(name)
            self._changed.notify_all()
            info = self._tasks.get(name)
        self._post(TaskGone(name, info.host if info is not None else "an unknown host", silent_s))

    def _await_restart(self, request: Any, context: Any) -> rendezvous_pb2.AwaitRestartResponse:
        name = TaskName(request.job, request.task)
        is_broken = self._watch(context)
        with self._changed:
            attempt = self._attempt
            self._lost.add(name)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: (
                    is_broken()
                    or self._ended is not None
                    or self._attempt != attempt
                    or name in self._returning
                )
            )
            if is_broken():
                self._lost.discard(name)
            restart = self._ended is None and not is_broken()
        return rendezvous_pb2.AwaitRestartResponse(restart=restart)

    def _heartbeat(self, request: Any) -> rendezvous_pb2.HeartbeatResponse:
        with self._changed:
            self._progress[TaskName(request.job, request.task)] = Progress(
                request.rows, request.steps, time.monotonic()
            )
        return rendezvous_pb2.HeartbeatResponse()

    def _report_state(self, request: Any) -> rendezvous_pb2.ReportStateResponse:
        with self._changed:
            self._states[TaskName(request.job, request.task)] = request
            self._changed.notify_all()
        return rendezvous_pb2.ReportStateResponse()

    def _write_logs(self, request: Any) -> rendezvous_pb2.WriteLogsResponse:
        self._show_lines(TaskName(request.job, request.task), request.lines, request.dropped)
        return rendezvous_pb2.WriteLogsResponse()
