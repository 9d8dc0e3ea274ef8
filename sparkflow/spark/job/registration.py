"""Where tasks report who and where they are: the service on the driver, and the tasks' way to it.

`RegisterTask` answers when every task has come, with the whole cluster: rendezvous and roll-call in
one. `AwaitEnd` lasts as long as the job. When a task's process dies, its call breaks and the driver
knows at once; when the driver dies, the tasks do.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Iterable
from typing import Any

from sparkflow.spark.job.events import Post, RowsReady, TaskFailed, TaskGone, TaskRegistered
from sparkflow.spark.job.layout import TaskName
from sparkflow_runtime.errors import (
    AlreadyExistsError,
    CancelledError,
    InvalidArgumentError,
    OpError,
)
from sparkflow_runtime.protos import rendezvous_pb2
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.transport import rpc

SERVICE = "sparkflow_runtime.protos.RegistrationService"

# Long enough for a loaded machine, short against a human's patience.
_REPORT_TIMEOUT_S = 5.0


class RegistrationServer:
    """The driver's side. Events are posted from the threads of gRPC.

    `_changed` guards `_tasks` and `_ended`.

    Args:
        tasks: Every task that must come.
        post: Takes what happens.
        host: The address to listen on.
        token: The job's token.
    """

    def __init__(self, tasks: Iterable[TaskName], post: Post, host: str, token: str) -> None:
        self._expected = frozenset(tasks)
        self._post = post
        self._changed = threading.Condition()
        self._tasks: dict[TaskName, rendezvous_pb2.TaskInfo] = {}
        self._ended: str | None = None
        methods = {
            "RegisterTask": rpc.Method(self._register, rendezvous_pb2.RegisterTaskRequest),
            "DataReady": rpc.Method(self._data_ready, rendezvous_pb2.DataReadyRequest),
            "ReportFailure": rpc.Method(self._report_failure, rendezvous_pb2.ReportFailureRequest),
            "AwaitEnd": rpc.Method(
                self._await_end, rendezvous_pb2.AwaitEndRequest, wants_context=True
            ),
        }
        self._server = rpc.RpcServer(
            [rpc.handlers(SERVICE, methods)], host=host, port=0, token=token
        )
        self._server.start()
        self.port = self._server.port

    def cluster(self) -> ClusterDef:
        """The tasks that have registered, with their addresses."""
        cluster = ClusterDef()
        with self._changed:
            for job in sorted({task.job for task in self._tasks}):
                members = {t.index: i.address for t, i in self._tasks.items() if t.job == job}
                cluster.job.add(name=job, tasks=dict(sorted(members.items())))
        return cluster

    def missing(self) -> list[TaskName]:
        """The tasks that have not registered yet."""
        with self._changed:
            return sorted(self._expected - self._tasks.keys())

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
            if name in self._tasks:
                raise AlreadyExistsError(
                    message=f"{name} has registered from {self._tasks[name].address} already"
                )
            self._tasks[name] = info
            self._changed.notify_all()
        self._post(TaskRegistered(name, info.address, info.host))
        with self._changed:
            while len(self._tasks) < len(self._expected) and self._ended is None:
                self._changed.wait()
            if self._ended is not None:
                raise CancelledError(message=self._ended or "Training has ended")
        return rendezvous_pb2.RegisterTaskResponse(cluster=self.cluster())

    def _data_ready(self, request: Any) -> rendezvous_pb2.DataReadyResponse:
        self._post(RowsReady(TaskName(request.job, request.task), request.rows))
        return rendezvous_pb2.DataReadyResponse()

    def _report_failure(self, request: Any) -> rendezvous_pb2.ReportFailureResponse:
        name = TaskName(request.task.job, request.task.task)
        self._post(TaskFailed(name, request.task.host, request.message, request.traceback))
        return rendezvous_pb2.ReportFailureResponse()

    def _await_end(self, request: Any, context: Any) -> rendezvous_pb2.AwaitEndResponse:
        name = TaskName(request.job, request.task)
        broken = False

        def notice() -> None:
            nonlocal broken
            with self._changed:
                broken = self._ended is None
                self._changed.notify_all()

        if not context.add_callback(notice):
            broken = True  # it broke before we could ask to be told
        with self._changed:
            while self._ended is None and not broken:
                self._changed.wait()
            info = self._tasks.get(name)
            reason = self._ended
        if reason is None:
            self._post(TaskGone(name, info.host if info is not None else "an unknown host"))
        return rendezvous_pb2.AwaitEndResponse(reason=reason or "")


class RegistrationClient:
    """A task's way to the driver.

    Args:
        address: `host:port` of the driver's service.
        token: The job's token.
    """

    def __init__(self, address: str, token: str) -> None:
        self._channel = rpc.channel(address)
        self._stub = rpc.Stub(self._channel, SERVICE, token, f"The driver at {address}")

    def register(self, task: rendezvous_pb2.TaskInfo) -> ClusterDef:
        """Registers and blocks until all tasks have; returns the whole cluster."""
        response: rendezvous_pb2.RegisterTaskResponse = self._stub.call(
            "RegisterTask",
            rendezvous_pb2.RegisterTaskRequest(task=task),
            rendezvous_pb2.RegisterTaskResponse.FromString,
        )
        return response.cluster

    def data_ready(self, task: TaskName, rows: int, size_bytes: int) -> None:
        """Says that the task has all its rows."""
        self._stub.call(
            "DataReady",
            rendezvous_pb2.DataReadyRequest(
                job=task.job, task=task.index, rows=rows, bytes=size_bytes
            ),
            rendezvous_pb2.DataReadyResponse.FromString,
        )

    def await_end(self, task: TaskName) -> Any:
        """A future of AwaitEndResponse that lasts as long as the job; see grpc.Future."""
        return self._stub.future(
            "AwaitEnd",
            rendezvous_pb2.AwaitEndRequest(job=task.job, task=task.index),
            rendezvous_pb2.AwaitEndResponse.FromString,
        )

    def report_failure(self, task: TaskName, host: str, error: BaseException | str) -> None:
        """Tells the driver why this task ends. Never raises: the driver may be gone."""
        text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        kind = "" if isinstance(error, str) else type(error).__name__
        request = rendezvous_pb2.ReportFailureRequest(
            task=rendezvous_pb2.TaskInfo(job=task.job, task=task.index, host=host),
            error_type=kind,
            message=str(error),
            traceback=text,
            time_s=time.time(),
        )
        try:
            self._stub.call(
                "ReportFailure",
                request,
                rendezvous_pb2.ReportFailureResponse.FromString,
                timeout_s=_REPORT_TIMEOUT_S,
            )
        except OpError:
            # The failure itself is raised or written to stderr by the caller.
            return

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()
