"""The registration service on the driver, where tasks report their identity and address.

`RegisterTask` answers when all tasks have registered, with the whole cluster: it is both a
rendezvous and a compatibility check. `AwaitEnd` lasts as long as the job and delivers instructions.
When a task's process dies, its call breaks and the driver knows at once; when the driver dies, the
tasks do.

A job may have several attempts. When one starts, the surviving processes discard the previous one
and register again, and the Spark tasks restart the lost processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from sparkflow.spark.cluster.events import (
    ClusterRefused,
    JobEnded,
    Post,
    RowsReady,
    TaskEntered,
    TaskFailed,
    TaskLeft,
    TaskRegistered,
)
from sparkflow.spark.cluster.failures import CONSEQUENCES
from sparkflow.spark.cluster.task_board import Entry, Progress, TaskBoard
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.endpoints import Ports
from sparkflow_runtime.errors import (
    UnavailableError,
)
from sparkflow_runtime.protos import rendezvous_pb2
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.rendezvous_pb2 import (
    AwaitEndResponse,
    ReportStateRequest,
    TaskInfo,
)
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.transport import rpc

SERVICE = "sparkflow_runtime.protos.RegistrationService"

PATIENCE: Final = rpc.Patience(ask_s=3.0, wait_s=3.0)
"""How long a task may be silent until the driver gives up its process."""
# If only the connection broke, the task is back at once: something in between closed or damaged it,
# or the driver stalled. If a process was killed, its Spark task reports it within that time.
_GRACE_S = 1.5
# A Spark task whose process has ended asks within this time whether to start another.
_VACANT_S = 5.0
# Between the registration of the last task and its readiness there are one answer and imports.
_READY_S = 60.0

Check: TypeAlias = Callable[[Sequence[TaskInfo]], str]
"""Returns why the registered tasks are incompatible; empty if they are compatible."""
ShowLines: TypeAlias = Callable[[TaskName, Sequence[str], int], None]
"""Receives lines of a task's log, and the number of lines dropped before them."""


class RegistrationServer:
    """The driver's side of registration. Events are posted from the threads of gRPC.

    `TaskBoard` holds what is known of the tasks and decides the answers; this class handles the
    calls and the waiting. `_changed` guards the board.

    Args:
        layout: The tasks that must register.
        post: Receives events.
        host: The address to listen on.
        credentials: The credentials that tasks must present, and that are presented to them.
        check: Called once all tasks have registered.
        show_lines: Receives lines of the tasks' logs, from the threads of gRPC.
        patience: When a silent task is given up.
        ports: The ports to choose from; any free port if None.
        services: Further services at the same port, for clients with the token.

    Raises:
        ResourceExhaustedError: None of the ports is free.
    """

    def __init__(
        self,
        layout: ClusterLayout,
        post: Post,
        host: str,
        credentials: Credentials,
        check: Check = lambda infos: "",
        show_lines: ShowLines = lambda task, lines, dropped: None,
        patience: rpc.Patience = PATIENCE,
        ports: Ports | None = None,
        services: Sequence[Any] = (),
    ) -> None:
        self._post = post
        self._check = check
        self._show_lines = show_lines
        # A connection that was closed is noticed at once, and heartbeats come every second. Where
        # nothing passes any more, it ends when the kernel has waited for a receipt for `wait_s`,
        # give or take some milliseconds: what is silent for most of that time is not killed.
        self._silent_s = patience.wait_s * 2 / 3
        self._changed = threading.Condition()
        self._board = TaskBoard(layout)
        pb = rendezvous_pb2
        methods = {
            "Enter": rpc.Method(self._enter, pb.EnterRequest, wants_context=True),
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

        def serve(ports: Sequence[int]) -> rpc.RpcServer:
            return rpc.RpcServer(
                [rpc.handlers(SERVICE, methods), *services],
                host=host,
                port=ports[0],
                token=credentials.token,
                tls=credentials.tls,
                patience=patience,
            )

        self._server = (ports or Ports()).listen(host, 1, serve)
        try:
            self._server.start()
        except BaseException:
            self._server.stop()
            raise
        self.port = self._server.port

    def begin_attempt(self, feed_plan: str) -> int:
        """Makes all tasks register (again); returns the number of the attempt, from 1.

        Args:
            feed_plan: The feed plan of the workers, as JSON.
        """
        with self._changed:
            self._put(self._board.begun(feed_plan))
            return self._board.attempt

    def let_return(self, task: TaskName, start: tuple[int, int]) -> None:
        """Lets a lost worker rejoin the attempt that continues without it.

        Args:
            task: The worker.
            start: The position of its data: completed epochs, and steps of the next one.
        """
        with self._changed:
            self._put(self._board.returnable(task, start))

    def is_coming_back(self, task: TaskName) -> bool:
        """Returns whether a Spark task is there to restart a returning worker, or has done so."""
        with self._changed:
            return self._board.is_coming_back(task)

    def wait_for_answers(self, timeout_s: float) -> bool:
        """Returns whether every task can start a new attempt: it is alive, or asks to be restarted.

        Waits up to `timeout_s` for that.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._board.can_begin, timeout_s)

    def cluster(self) -> ClusterDef:
        """Returns the registered tasks, with their addresses, and what they host.

        Waits until all are ready, which is a moment after the last one has registered.

        Raises:
            UnavailableError: Some are not ready in time.
        """
        with self._changed:
            # If a task is gone, an event says why.
            if not self._changed.wait_for(lambda: self._board.is_usable, _READY_S):
                late = ", ".join(map(str, sorted(self._board.tasks.keys() - self._board.ready)))
                raise UnavailableError(
                    message=f"{late} registered, but then went silent for {_READY_S:g} s"
                )
            return self._board.cluster()

    def missing(self) -> list[TaskName]:
        """The tasks that have not registered yet."""
        with self._changed:
            return self._board.missing

    def progress(self) -> Mapping[TaskName, Progress]:
        """The last heartbeat of each task."""
        with self._changed:
            return self._board.progress

    def infos(self) -> Mapping[TaskName, TaskInfo]:
        """What each task said when it registered."""
        with self._changed:
            return self._board.tasks

    def states(self, timeout_s: float) -> Mapping[TaskName, ReportStateRequest]:
        """Asks all tasks for their state; omits those that do not answer within `timeout_s`."""
        with self._changed:
            self._put(self._board.asked())
            self._changed.wait_for(lambda: self._board.all_answered, timeout_s)
            return self._board.states

    def end(self, reason: str = "") -> None:
        """Tells all tasks to end, once; `reason` is empty if training succeeded."""
        with self._changed:
            self._put(self._board.over(reason))

    def job_ended(self, event: JobEnded) -> None:
        """Notes that the Spark job has ended, and posts that.

        If it failed, a task whose connection broke meanwhile counts as lost, without waiting.
        """
        if event.error is not None:
            with self._changed:
                self._put(replace(self._board, job_failed=True))
        self._post(event)

    def close(self) -> None:
        """Ends all tasks and stops listening. May be called more than once."""
        self.end("The driver has stopped")
        self._server.stop()

    def _put(self, board: TaskBoard) -> None:
        """Replaces the board and wakes all waiting threads; under `_changed`."""
        self._board = board
        self._changed.notify_all()

    def _enter(self, request: Any, context: Any) -> rendezvous_pb2.EnterResponse:
        name = TaskName(request.job, request.task)
        entry = Entry(request.place, request.task_attempt_id)
        is_broken = self._watch(context)
        with self._changed:
            while (board := self._board.enters(name, entry)) is None and not is_broken():
                self._changed.wait()
                if self._board.is_vacant(name):  # the previous Spark task may still be there
                    self._changed.wait_for(lambda: not self._board.is_vacant(name), _VACANT_S)
            if board is None:
                return rendezvous_pb2.EnterResponse()
            self._put(board)
        self._post(TaskEntered(name, entry.place))
        with self._changed:
            while (answer := self._board.answer_to_entered(entry)) is None and not is_broken():
                self._changed.wait()
            if answer is None:
                self._put(self._board.left(name))
        if answer is None:
            self._post(TaskLeft(name))
        return rendezvous_pb2.EnterResponse(admitted=bool(answer), neighbours=answer or 0)

    def _register(self, request: Any) -> rendezvous_pb2.RegisterTaskResponse:
        info = request.task
        with self._changed:
            # Waiting threads are woken once the event has been posted.
            self._board, own_plan = self._board.registered(info, time.time())
            board = self._board
        if not board.missing:
            problem = self._check(list(board.tasks.values()))
            if problem:
                self._post(ClusterRefused(problem))
                self.end(problem)
        self._post(TaskRegistered(TaskName(info.job, info.task), info.address, info.host))
        with self._changed:
            self._changed.notify_all()
            while (plan := self._board.answer_to_registered(board.attempt, own_plan)) is None:
                self._changed.wait()
            cluster = self._board.cluster()
        return rendezvous_pb2.RegisterTaskResponse(
            cluster=cluster, attempt=board.attempt, feed_plan=plan
        )

    def _task_ready(self, request: Any) -> rendezvous_pb2.TaskReadyResponse:
        with self._changed:
            self._put(self._board.made_ready(TaskName(request.job, request.task)))
        return rendezvous_pb2.TaskReadyResponse()

    def _data_ready(self, request: Any) -> rendezvous_pb2.DataReadyResponse:
        name = TaskName(request.job, request.task)
        self._post(RowsReady(name, request.rows, request.validation_rows))
        return rendezvous_pb2.DataReadyResponse()

    def _report_failure(self, request: Any) -> rendezvous_pb2.ReportFailureResponse:
        name = TaskName(request.task.job, request.task.task)
        with self._changed:
            time_s = self._board.driver_time(name, request.time_s, time.time())
            if request.lost:
                self._put(self._board.loss_told(name))
        self._post(
            TaskFailed(
                name,
                request.task.host,
                request.message,
                request.traceback,
                request.lost,
                time_s,
                follows=request.error_type in CONSEQUENCES,
            )
        )
        return rendezvous_pb2.ReportFailureResponse()

    def _await_end(self, request: Any, context: Any) -> Iterator[AwaitEndResponse]:
        name = TaskName(request.job, request.task)
        marker = object()
        is_broken = self._watch(context)
        with self._changed:
            self._put(self._board.follows(name, marker))
            seen = (request.attempt, self._board.states_asked)
        while True:
            with self._changed:
                while (told := self._board.instruction(*seen)) is None and not is_broken():
                    self._changed.wait()
                board = self._board
            if told is not None and told.ended is not None:
                yield AwaitEndResponse(reason=told.ended, ended=True)
                return
            if told is None or is_broken():
                self._lose(name, marker)
                return
            yield AwaitEndResponse(attempt=told.attempt, wants_state=told.wants_state)
            seen = (board.attempt, board.states_asked)

    def _watch(self, context: Any) -> Callable[[], bool]:
        """Returns whether a call has broken; threads that wait for `_changed` are woken then."""
        broken = threading.Event()

        def notice() -> None:
            broken.set()
            with self._changed:
                self._changed.notify_all()

        if not context.add_callback(notice):
            broken.set()  # before we could register a callback
        return broken.is_set

    def _lose(self, name: TaskName, marker: object) -> None:
        with self._changed:
            board = self._board.broke(name, marker)
            if board is None:
                return
            self._board = board
            silent_s = board.silence(name, time.monotonic())
            if silent_s < self._silent_s:
                silent_s = 0.0
            if self._changed.wait_for(
                lambda: self._board.is_decided(name, board.attempt), _GRACE_S
            ) and self._board.is_settled(name, board.attempt):
                return
            given_up, event = self._board.given_up(name, silent_s)
            self._put(given_up)
        self._post(event)

    def _await_restart(self, request: Any, context: Any) -> rendezvous_pb2.AwaitRestartResponse:
        name = TaskName(request.job, request.task)
        is_broken = self._watch(context)
        with self._changed:
            self._put(self._board.asks_restart(name))
            attempt = self._board.attempt
            while (restart := self._board.answer_to_restart(name, attempt)) is None:
                if is_broken():
                    break
                self._changed.wait()
            if is_broken():
                self._board = self._board.asks_no_more(name)
                restart = False
        return rendezvous_pb2.AwaitRestartResponse(restart=bool(restart))

    def _heartbeat(self, request: Any) -> rendezvous_pb2.HeartbeatResponse:
        with self._changed:
            heard = Progress(request.rows, request.steps, time.monotonic())
            self._board = self._board.heard(TaskName(request.job, request.task), heard)
        return rendezvous_pb2.HeartbeatResponse()

    def _report_state(self, request: Any) -> rendezvous_pb2.ReportStateResponse:
        with self._changed:
            self._put(self._board.told(request))
        return rendezvous_pb2.ReportStateResponse()

    def _write_logs(self, request: Any) -> rendezvous_pb2.WriteLogsResponse:
        self._show_lines(TaskName(request.job, request.task), request.lines, request.dropped)
        return rendezvous_pb2.WriteLogsResponse()
