"""The lifecycle of a task's process: in each attempt it serves, registers and feeds its rows.

Each attempt has its own servers. When the next one starts, they are stopped with their state
(variables, queues, accumulators), so that nothing of an earlier attempt remains.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from sparkflow.spark.cluster.addresses import own_address
from sparkflow.spark.cluster.registration_client import RegistrationClient
from sparkflow.spark.cluster.reports import StepCounter, describe_state
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.data.hosted.on_demand import HostedOnDemand
from sparkflow.spark.endpoints import Ports
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime.device.device import gpu_uuids
from sparkflow_runtime.errors import AbortedError, CancelledError, UnavailableError
from sparkflow_runtime.protos.rendezvous_pb2 import AwaitEndResponse, TaskInfo
from sparkflow_runtime.resources.datasets import hosted_datasets
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.server import Server

if TYPE_CHECKING:
    from sparkflow.spark.data.feed.worker_feed import WorkerFeed

_HEARTBEAT_S = 1.0
# How long, and how often, to reconnect to the driver after the connection broke.
_REACH_AGAIN_S = 10.0
_AGAIN_S = 0.2

Tell = Callable[[Mapping[str, Any]], None]
MakeFeed = Callable[[Mapping[str, Any], int], "WorkerFeed"]


@dataclass(frozen=True, slots=True)
class _Instruction:
    """An instruction of the driver: the next attempt starts, or the job has ended.

    Attributes:
        attempt: The attempt; None at the end.
        error: What broke the connection, if it did.
    """

    attempt: int | None
    error: Exception | None = None


class TaskLifecycle:
    """The life of a task's process, as its main thread runs it.

    Args:
        config: What the Spark task said.
        name: The task.
        credentials: What the job's tasks show to each other.
        client: The way to the driver.
        incoming: What comes from the Spark task.
        tell: Tells the Spark task what happens.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        name: TaskName,
        credentials: Credentials,
        client: RegistrationClient,
        incoming: queue.Queue[Any],
        tell: Tell,
    ) -> None:
        self._config = config
        self._name = name
        self._credentials = credentials
        self._client = client
        self._incoming = incoming
        self._tell = tell
        self._messages: list[Mapping[str, Any]] = []
        self._steps = StepCounter(tell)
        self._server: Server | None = None
        self._rows: WorkerFeed | None = None
        self._following = False
        self._attempt = 0
        self._port = config.get("port", 0)
        self._ports = Ports.of(config.get("ports", ""))
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def run(self) -> None:
        """Serves until the driver says that the job has ended.

        Raises:
            UnavailableError: The driver is gone.
            OpError: The driver refuses this task.
        """
        while True:
            try:
                if self._serve():
                    return
            finally:
                if self._server is not None:
                    self._server.stop()
                if self._rows is not None:
                    self._rows.close()

    def _serve(self) -> bool:
        """Runs one attempt; returns whether it was the last one."""
        server = self._server = self._start_server()
        make_feed = _feed_maker() if self._name.job == "worker" else None
        try:
            answer = self._client.register(self._describe(server))
        except CancelledError:
            return True  # training ended before all tasks were there
        except AbortedError:
            return False
        self._attempt = answer.attempt
        if not self._following:
            self._following = True
            threading.Thread(
                target=self._follow, args=(answer.attempt,), name="instructions", daemon=True
            ).start()
        server.set_cluster(answer.cluster)
        self._tell({"event": "start"})
        instruction = self._feed(server, json.loads(answer.feed_plan), make_feed)
        while instruction is None:
            instruction = self._take()
        if instruction.error is not None:
            raise UnavailableError(
                message="The driver is gone, or continues without this process: "
                f"{instruction.error}"
            )
        if instruction.attempt is None:
            self._tell({"event": "end", "steps": self._steps.steps})
        return instruction.attempt is None

    def _feed(
        self, server: Server, plan: Mapping[str, Any], make_feed: MakeFeed | None
    ) -> _Instruction | None:
        """Hands the rows to the server; what the driver said if it spoke before all were there."""
        if make_feed is None:
            self._client.task_ready(self._name)
            while not self._messages:  # that there are none
                instruction = self._take()
                if instruction is not None:
                    return instruction
            self._client.data_ready(self._name, rows=0, validation_rows=0, size_bytes=0)
            return None
        feed = self._rows = make_feed(plan, self._name.index)
        hosted = HostedOnDemand(self._name.index)
        hosted_datasets.host(hosted.find)

        def take(message: Mapping[str, Any]) -> None:
            (hosted if "dataset" in message else feed).take(message)

        for name, source in feed.sources().items():
            server.resources.put("", name, source)
        self._client.task_ready(self._name)
        for message in self._messages:  # of an attempt before
            take(message)
        while not feed.is_complete:
            instruction = self._take()
            if instruction is not None:
                return instruction
            take(self._messages[-1])
        self._client.data_ready(self._name, feed.rows, feed.validation_rows, feed.size_bytes)
        self._tell({"event": "rows", "rows": feed.rows})
        return None

    def _take(self) -> _Instruction | None:
        """Waits for one message; remembers it if it is of the Spark task."""
        message = self._incoming.get()
        if not isinstance(message, _Instruction):
            self._messages.append(message)
            return None
        if message.attempt is not None and message.attempt <= self._attempt:
            return None  # this process is in that attempt already
        return message

    def _start_server(self) -> Server:
        config = self._config
        host = own_address(config["driver"], config.get("interface", ""))

        def server(ports: Sequence[int]) -> Server:
            return Server(
                None,
                self._name.job,
                self._name.index,
                port=ports[0],
                channel_port=ports[1],
                host=host,
                token=self._credentials.token,
                tls=self._credentials.tls,
                # Those of the machine are the workers'.
                gpus=0 if self._name.job == "ps" else None,
                gpu_memory_bytes=config["gpu_memory_bytes"],
            )

        port, self._port = self._port, 0  # of a process before, for the first attempt
        started: Server | None = None
        if port and not self._ports.first:
            with contextlib.suppress(UnavailableError):  # somebody else has it now
                started = server([port, 0])
        if started is None:
            started = self._ports.listen(host, 2, server)
        self._tell({"event": "listening", "port": started.port})
        started.start()
        started.worker.on_loop_update = self._steps.add
        return started

    def _describe(self, server: Server) -> TaskInfo:
        config = self._config
        return TaskInfo(
            job=self._name.job,
            task=self._name.index,
            address=server.address,
            incarnation=server.worker.incarnation,
            host=socket.gethostname(),
            pid=os.getpid(),
            spark_partition=config["partition"],
            task_attempt_id=config["attempt"],
            gpu_uuids=gpu_uuids() if self._name.job != "ps" else (),
            gpu_addresses=config["gpu_addresses"] or (),
            versions=versions(),
        )

    def _follow(self, attempt: int) -> None:
        """Passes the driver's instructions on; runs in a thread as long as the process."""
        pause = threading.Event()
        broken_s: float | None = None
        while True:
            try:
                for told in self._client.await_end(self._name, attempt):
                    broken_s = None
                    attempt = told.attempt or attempt
                    if told.wants_state:
                        self._report_state()
                    if told.ended or told.attempt:
                        self._pass_on(told)
                    if told.ended:
                        return
                pause.wait(_AGAIN_S)  # something between us has ended the stream
            except grpc.RpcError as error:
                failure = self._client.error_of(error)
                now = time.monotonic()
                broken_s = now if broken_s is None else broken_s
                # The connection may have broken because one end stood still: both are there again.
                if isinstance(failure, UnavailableError) and now - broken_s < _REACH_AGAIN_S:
                    pause.wait(_AGAIN_S)
                    continue
                self._incoming.put(_Instruction(None, failure))
                return

    def _pass_on(self, told: AwaitEndResponse) -> None:
        self._incoming.put(_Instruction(None if told.ended else told.attempt))

    def _report_state(self) -> None:
        waits = self._server.worker.waits() if self._server is not None else []
        self._client.report_state(describe_state(self._name, waits, self._steps.steps))

    def _beat(self) -> None:
        """Says that this task lives; ends it where there has been no connection for long.

        Where bytes were changed on their way, gRPC may never end a call whose connection is gone,
        so that `_follow` does not hear of it.
        """
        pause = threading.Event()
        broken_s: float | None = None
        while True:
            rows = self._rows.rows if self._rows is not None else 0
            failure = self._client.heartbeat(self._name, rows, self._steps.steps)
            now = time.monotonic()
            if not isinstance(failure, UnavailableError):
                broken_s = None
            elif broken_s is None:
                broken_s = now
            elif now - broken_s >= _REACH_AGAIN_S:
                self._incoming.put(_Instruction(None, failure))
                self._client.close()  # which ends what waits for an answer
                return
            pause.wait(_HEARTBEAT_S)


def _feed_maker() -> MakeFeed:
    # Imported here, because parameter servers start sooner without pyarrow.
    from sparkflow.spark.data.feed.worker_feed import WorkerFeed
    from sparkflow.spark.data.feed_plan import FeedPlan

    return lambda plan, worker: WorkerFeed(FeedPlan.from_json(plan), worker)


def versions() -> dict[str, str]:
    """Of this process: Python and the packages that both ends of the job must agree on."""
    found = {"python": sys.version.split()[0], "sparkflow": SPARKFLOW_VERSION}
    modules = {
        "numpy": "numpy",
        "pyarrow": "pyarrow",  # which parameter servers do not load
        "grpcio": "grpc",
        "protobuf": "google.protobuf",
    }
    for package, module in modules.items():
        # importlib.metadata would read files, and load the package of e-mails to parse them.
        if module in sys.modules:
            found[package] = str(sys.modules[module].__version__)
    return found
