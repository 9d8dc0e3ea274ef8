"""A task's client of the registration service on the driver. Never imports pyspark."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from sparkflow.spark.cluster_layout import TaskName
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.protos import rendezvous_pb2
from sparkflow_runtime.protos.rendezvous_pb2 import (
    AwaitEndResponse,
    EnterResponse,
    RegisterTaskResponse,
    ReportStateRequest,
    TaskInfo,
)
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.transport import rpc

SERVICE = "sparkflow_runtime.protos.RegistrationService"

# Long enough for a loaded machine, short against a human's patience.
_REPORT_TIMEOUT_S = 5.0

PATIENCE: Final = rpc.Patience(ask_s=30.0, wait_s=60.0)
"""A driver may stall for a while: if it is gone, Spark ends the task."""


class RegistrationClient:
    """A task's connection to the driver. Thread-safe.

    Args:
        address: `host:port` of the driver's service.
        credentials: The credentials that the job's tasks and driver present to each other.
        clock: Returns seconds, like `time.time`.
    """

    def __init__(
        self, address: str, credentials: Credentials, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        peer = f"The driver at {address}"
        self._channel = rpc.channel(address, credentials.tls, PATIENCE)
        self._stub = rpc.Stub(self._channel, SERVICE, credentials.token, peer)

    def enter(self, task: TaskName, place: str, task_attempt_id: int) -> int:
        """Asks whether to do a task's work, and blocks until all tasks have arrived.

        Args:
            task: The task.
            place: Equal for tasks on the same machine.
            task_attempt_id: Spark's id.

        Returns:
            The number of tasks at this place; 0 if training is over, so that there is no work.

        Raises:
            OpError: The driver is gone, or refuses.
        """
        response: EnterResponse = self._stub.call(
            "Enter",
            rendezvous_pb2.EnterRequest(
                job=task.job, task=task.index, place=place, task_attempt_id=task_attempt_id
            ),
            EnterResponse.FromString,
        )
        return response.neighbours if response.admitted else 0

    def register(self, task: TaskInfo) -> RegisterTaskResponse:
        """Registers and blocks until all tasks have; returns the whole cluster.

        Raises:
            CancelledError: Training has ended.
            AbortedError: Another attempt has started: register again.
            OpError: The driver refuses, or is gone.
        """
        task.time_s = self._clock()
        response: RegisterTaskResponse = self._stub.call(
            "RegisterTask",
            rendezvous_pb2.RegisterTaskRequest(task=task),
            RegisterTaskResponse.FromString,
        )
        self._stub.is_known = True
        return response

    def task_ready(self, task: TaskName) -> None:
        """Reports that the task knows the cluster and is ready."""
        self._stub.call(
            "TaskReady",
            rendezvous_pb2.TaskReadyRequest(job=task.job, task=task.index),
            rendezvous_pb2.TaskReadyResponse.FromString,
        )

    def data_ready(self, task: TaskName, rows: int, validation_rows: int, size_bytes: int) -> None:
        """Reports that the task has all its training and validation rows."""
        self._stub.call(
            "DataReady",
            rendezvous_pb2.DataReadyRequest(
                job=task.job,
                task=task.index,
                rows=rows,
                validation_rows=validation_rows,
                bytes=size_bytes,
            ),
            rendezvous_pb2.DataReadyResponse.FromString,
        )

    def await_end(self, task: TaskName, attempt: int) -> Iterator[AwaitEndResponse]:
        """Yields the driver's instructions, the last one with `ended`; raises grpc's errors.

        Args:
            task: Which task.
            attempt: The one that it has registered in.
        """
        stream: Iterator[AwaitEndResponse] = self._stub.stream(
            "AwaitEnd",
            rendezvous_pb2.AwaitEndRequest(job=task.job, task=task.index, attempt=attempt),
            AwaitEndResponse.FromString,
        )
        return stream

    def error_of(self, error: Any) -> OpError:
        """Converts a grpc.RpcError of `await_end`: to UnavailableError if a retry may succeed."""
        return self._stub.error_of(error)

    def await_restart(self, task: TaskName) -> bool:
        """Returns whether to restart the task's process; blocks until the driver has decided."""
        try:
            response = self._stub.call(
                "AwaitRestart",
                rendezvous_pb2.AwaitRestartRequest(job=task.job, task=task.index),
                rendezvous_pb2.AwaitRestartResponse.FromString,
            )
        except OpError:
            return False  # the driver has stopped
        return bool(response.restart)

    def heartbeat(self, task: TaskName, rows: int, steps: int) -> OpError | None:
        """Sends a heartbeat with the task's progress; ignores errors, because others follow."""
        return self._try(
            "Heartbeat",
            rendezvous_pb2.HeartbeatRequest(job=task.job, task=task.index, rows=rows, steps=steps),
            rendezvous_pb2.HeartbeatResponse,
        )

    def report_state(self, state: ReportStateRequest) -> None:
        """Answers the driver's request for the task's state. Never raises."""
        self._try("ReportState", state, rendezvous_pb2.ReportStateResponse)

    def write_logs(self, task: TaskName, lines: Sequence[str], dropped: int) -> None:
        """Shows lines on the driver, with the number of lines dropped before them. Never raises."""
        self._try(
            "WriteLogs",
            rendezvous_pb2.WriteLogsRequest(
                job=task.job, task=task.index, lines=lines, dropped=dropped
            ),
            rendezvous_pb2.WriteLogsResponse,
        )

    def report_failure(
        self,
        task: TaskName,
        host: str,
        error: BaseException | str,
        lost: bool = False,
        error_type: str = "",
    ) -> None:
        """Reports to the driver why this task ends. Never raises: the driver may be gone.

        Args:
            task: Which task.
            host: Where it runs.
            error: The error; the driver shows the traceback of an exception.
            lost: Whether its process was killed from outside.
            error_type: The name of the error's class, if only its text is given.
        """
        text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        kind = error_type if isinstance(error, str) else type(error).__name__
        request = rendezvous_pb2.ReportFailureRequest(
            task=TaskInfo(job=task.job, task=task.index, host=host),
            error_type=kind,
            message=str(error),
            traceback=text,
            time_s=self._clock(),
            lost=lost,
        )
        # If this fails: the caller raises the failure itself or writes it to stderr.
        self._try("ReportFailure", request, rendezvous_pb2.ReportFailureResponse)

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def _try(self, name: str, request: Any, response: Any) -> OpError | None:
        try:
            self._stub.call(name, request, response.FromString, timeout_s=_REPORT_TIMEOUT_S)
        except OpError as error:
            return error
        return None
